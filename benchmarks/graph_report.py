"""``python -m benchmarks graph``: tables and sentences."""

import statistics
from collections.abc import Collection, Sequence

from benchmarks.graph import EVALUATION_AIM, TRAINING_AIM, Report, Row, Settings, measure_graphs
from benchmarks.subject import Section, Subject
from benchmarks.svm import SVMRow
from benchmarks.text import aligned, extremes, figure, ratio, time

PARTS = ("batch", "loss", "optimiser")
"""Parts of a training that have a column each."""


def show(report: Report) -> list[Section]:
    """A section for training and one for evaluation, each only if it was measured; at least one."""
    sections = []
    if report.training:
        sections.append(Section(training_table(report.training), training_sentences(report.training)))
    if report.svm or not sections:
        threads = report.machine["threads"]
        jobs = threads if isinstance(threads, int) else 1
        table = svm_table(report.svm, jobs, made_up=report.made_up)
        sections.append(Section(table, svm_sentences(report.svm, jobs)))
    sections[-1].sentences.extend(report.notes)
    return sections


def training_table(rows: Sequence[Row]) -> str:
    """A table with one row per set of graphs and correction."""
    columns = [
        ("training", ""),
        ("correction", ""),
        ("times", "of"),
        ("whole", "ms"),
        ("bare", "ms"),
        ("whole/bare", f"(aim: <= {TRAINING_AIM:g})"),
        ("/geometric", "(quartiles)"),
        ("/GIN", ""),
        *[(part, "ms") for part in PARTS],
    ]
    cells = [
        [
            row.data,
            row.correction,
            row.unit,
            time(row.contenders, "training"),
            time(row.contenders, "network"),
            ratio(row.ratios, "training/network"),
            ratio(row.ratios, "training/torch_geometric"),
            figure(row.ratios["training/gin"].median),
            *[time(row.contenders, part) for part in PARTS],
        ]
        for row in rows
    ]
    return aligned(columns, cells)


def training_sentences(rows: Sequence[Row]) -> list[str]:
    """Sentences that sum up the table."""
    over_network, over_gin = (
        [(row, row.ratios[f"training/{bare}"].median) for row in rows] for bare in ("network", "gin")
    )
    (least, low), (most, high) = extremes(over_network)
    kept = sum(value <= TRAINING_AIM for _, value in over_network)
    (of_least, low_gin), (of_most, high_gin) = extremes(over_gin)
    sentences = [
        f"Training takes {figure(low)} ({_place(least)}) to {figure(high)} ({_place(most)}) times as long as the bare "
        f"network (forward and backward of GIN and its two heads on the same batches). The aim is {TRAINING_AIM:g} at "
        f"most, which {kept} of {len(rows)} reach.",
        f"It takes {figure(low_gin)} ({_place(of_least)}) to {figure(high_gin)} ({_place(of_most)}) times as long as "
        f"GIN alone.",
    ]
    usual = [
        (row, row.ratios["training/torch_geometric"].median) for row in rows if "torch_geometric" in row.contenders
    ]
    if usual:
        (least, low), (most, high) = extremes(usual)
        kept = sum(value <= TRAINING_AIM for _, value in usual)
        sentences.insert(
            1,
            f"Compared with the same network made of torch_geometric's layers it takes {figure(low)} "
            f"({_place(least)}) to {figure(high)} ({_place(most)}) times as long, and {kept} of {len(usual)} reach the "
            f"aim.",
        )
    return sentences


def svm_table(rows: Sequence[SVMRow], jobs: int, made_up: Collection[str] = ()) -> str:
    """A table with one row per set of embeddings.

    Args:
        rows: The evaluations.
        jobs: Threads of ours, and processes of scikit-learn where it runs in parallel.
        made_up: Sets with random embeddings.
    """
    columns = [
        ("evaluation", ""),
        ("embeddings", ""),
        ("features", ""),
        ("graphs", ""),
        ("classes", ""),
        ("sklearn", "s"),
        ("sklearn", f"{_count(jobs, 'job')}, s"),
        ("ours", "s"),
        ("sklearn/ours", f"(aim: >= {EVALUATION_AIM:g})"),
        (_count(jobs, "job"), "/ours"),
        ("equal", ""),
    ]
    cells = [
        [
            row.name,
            "made up" if row.name in made_up else "untrained",
            f"{row.dim} scaled" if row.scaled else str(row.dim),
            str(row.graphs),
            str(row.classes),
            *[figure(statistics.median(times)) for times in row.seconds.values()],
            *[figure(value) for value in row.ratios.values()],
            "yes" if row.equal else "NO",
        ]
        for row in rows
    ]
    return aligned(columns, cells)


def svm_sentences(rows: Sequence[SVMRow], jobs: int) -> list[str]:
    """Sentences that sum up the table."""
    if not rows:
        return []
    (least, low), (most, high) = extremes([(row, row.ratios["sklearn"]) for row in rows])
    kept = sum(row.ratios["sklearn"] >= EVALUATION_AIM for row in rows)
    equal = sum(row.equal for row in rows)
    sentences = [
        f"scikit-learn's grid search in one process takes {figure(low)} ({_scaled(least)}) to {figure(high)} "
        f"({_scaled(most)}) times as long as ours on {_count(jobs, 'thread')}. The aim is {EVALUATION_AIM:g} at least, "
        f"which {kept} of {len(rows)} reach."
    ]
    if jobs > 1:
        (least, low), (most, high) = extremes([(row, row.ratios["sklearn jobs"]) for row in rows])
        sentences.append(
            f"On {jobs} processes it takes {figure(low)} ({_scaled(least)}) to {figure(high)} ({_scaled(most)}) times "
            f"as long."
        )
    return [*sentences, f"The accuracy on every fold and every chosen C are equal in {equal} of {len(rows)}."]


def disagreements(report: Report) -> list[str]:
    """Evaluations in which scikit-learn and pucl differ."""
    return [
        f"scikit-learn and pucl must give the same accuracy and choose the same C on every fold, but do not: "
        f"{_scaled(row)}"
        for row in report.svm
        if not row.equal
    ]


def _place(row: Row) -> str:
    return f"{row.data}, {row.correction}"


def _scaled(row: SVMRow) -> str:
    return f"{row.name}, scaled" if row.scaled else row.name


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


GRAPH = Subject(
    name="graph",
    purpose="time of training on graphs compared with the bare network, and of the SVM evaluation with scikit-learn",
    settings=Settings,
    measure=measure_graphs,
    show=show,
    failures=disagreements,
)
