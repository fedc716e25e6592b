"""``pucl bench graph``: its options, and its report for people."""

import argparse
import statistics
from collections.abc import Collection, Sequence
from pathlib import Path

from pucl.benchmarks.graph import EVALUATION_AIM, TRAINING_AIM, Report, Row, Settings, measure_graphs
from pucl.benchmarks.svm import SVMRow
from pucl.commands.bench.shared import (
    Section,
    Subject,
    add_effort,
    add_names,
    add_switch,
    aligned,
    extremes,
    figure,
    ratio,
    settings_from,
    time,
)

PARTS = ("batch", "loss", "optimiser")
"""Of a training, which have a column each."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sets of graphs, corrections, what is measured, and how long."""
    usual = Settings()
    add_names(parser, "--data", "which sets of graphs; embeddings of those that are not there are made up", usual.data)
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument("--limit", type=int, metavar="N", help="use only this many graphs of a set (default: all)")
    add_names(parser, "--corrections", "which of plain, deb, hard, ring and pucl", usual.corrections)
    parser.add_argument(
        "--batch-size", type=int, default=usual.batch_size, metavar="N", help="graphs in a step (default: %(default)s)"
    )
    add_effort(parser, usual, "each correction is timed on each set")
    add_switch(parser, "training", "measure training over the bare network", usual.training)
    add_switch(parser, "svm", "measure the evaluation against scikit-learn's", usual.svm)
    add_switch(parser, "scale", "measure the evaluation with scaled features too", usual.scale)
    for name, meaning in (
        ("folds", "outer folds of the evaluation"),
        ("inner-folds", "folds in which C is chosen"),
        ("rounds", "turns of each way of evaluation"),
    ):
        default: int = getattr(usual, name.replace("-", "_"))
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )


def show(report: Report) -> list[Section]:
    """Training, then evaluation; what was not measured has no section, unless nothing was."""
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
    """One line for each set of graphs and correction."""
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
    """What the table comes to."""
    over_network, over_gin = (
        [(row, row.ratios[f"training/{bare}"].median) for row in rows] for bare in ("network", "gin")
    )
    (least, low), (most, high) = extremes(over_network)
    kept = sum(value <= TRAINING_AIM for _, value in over_network)
    (of_least, low_gin), (of_most, high_gin) = extremes(over_gin)
    sentences = [
        f"Training takes {figure(low)} ({_place(least)}) to {figure(high)} ({_place(most)}) times as long as the bare "
        f"network, forward and backward of GIN and its two heads on the same batches; the aim is {TRAINING_AIM:g} at "
        f"most, and {kept} of {len(rows)} are within it.",
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
            f"Of the same network made of torch_geometric's layers it takes {figure(low)} ({_place(least)}) to "
            f"{figure(high)} ({_place(most)}) times as long; {kept} of {len(usual)} are within the aim.",
        )
    return sentences


def svm_table(rows: Sequence[SVMRow], jobs: int, made_up: Collection[str] = ()) -> str:
    """One line for each set of embeddings.

    Args:
        rows: The evaluations.
        jobs: Threads of ours, and processes of scikit-learn's second turn.
        made_up: Sets whose embeddings are.
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
    """What the table comes to."""
    if not rows:
        return []
    (least, low), (most, high) = extremes([(row, row.ratios["sklearn"]) for row in rows])
    kept = sum(row.ratios["sklearn"] >= EVALUATION_AIM for row in rows)
    equal = sum(row.equal for row in rows)
    sentences = [
        f"scikit-learn's grid search, as it comes, takes {figure(low)} ({_scaled(least)}) to {figure(high)} "
        f"({_scaled(most)}) times as long as ours on {_count(jobs, 'thread')}; the aim is {EVALUATION_AIM:g} at least, "
        f"and {kept} of {len(rows)} reach it."
    ]
    if jobs > 1:
        (least, low), (most, high) = extremes([(row, row.ratios["sklearn jobs"]) for row in rows])
        sentences.append(
            f"On {jobs} processes it takes {figure(low)} ({_scaled(least)}) to {figure(high)} ({_scaled(most)}) times "
            f"as long."
        )
    return [*sentences, f"The accuracy on every fold and every chosen C are equal in {equal} of {len(rows)}."]


def disagreements(report: Report) -> list[str]:
    """Where scikit-learn and we came to something else."""
    return [
        f"scikit-learn and pucl must give the same accuracy and choose the same C on every fold, and do not: "
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
    purpose="time of training on graphs over that of the bare network, and of the SVM evaluation over scikit-learn's",
    add_arguments=add_arguments,
    settings=lambda arguments: settings_from(Settings, arguments),
    measure=measure_graphs,
    show=show,
    failures=disagreements,
)
