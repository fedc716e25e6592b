"""The paper's Table 2."""

from statistics import mean
from typing import Any, Literal

from pucl.paper.graph_settings import BASE, YARDSTICK, VariantResult
from pucl.records import conform
from pucl.runs.rows import TableRow
from pucl.runs.tables import read_rows
from results.words import OTHER_DIGITS, interval, markdown, percent, rows_of, tau

GRAPH_PROBES = {"svm": "SVM, %", "svm_scaled": "SVM on scaled features, %", "knn": "nearest neighbours, %"}


def table2_page(record: dict[str, Any], chosen: dict[str, Any] | None, *searches: dict[str, Any] | None) -> str:
    """docs/table2.md from records/graphs."""
    config = next(iter(record["data"].values()))["config"]
    lines = [
        "# Table 2: graphs, measured in full",
        "",
        f"Made by `{record['command']}` with torch {record['torch']}: InfoGraph on all graphs of each set, "
        f"{config['epochs']} epochs at batch {config['batch_size']}, {config['layers']} layers of {config['hidden']}, "
        f"learning rate {config['learning_rate']:g}, one estimate for each {config['share']}. A support vector machine "
        "is evaluated on ten folds by the references' protocol, and again on scaled features. Each seed has its own "
        "training and folds; all rows share the folds of a seed. Differences are taken to plain InfoGraph, seed by "
        f"seed, with 95 % intervals. {effort(record)} {OTHER_DIGITS}",
        "",
        "*Raw features* are sums over nodes, without an encoder. *As published* is the loss of HCL's program, which "
        "has wrong signs. The *oracle* knows which graphs are of one class. *Paper* is the paper's number.",
    ]
    lines += ["", "## Findings", "", *graph_findings(record)]
    for name, part in record["data"].items():
        lines += ["", f"## {name}", "", *graph_table(part)]
    if any(searches):
        lines += ["", "## Where a correction helps"]
    for search in filter(None, searches):
        lines += ["", *search_section(search)]
    if chosen is not None:
        lines += ["", "## The chosen setting", "", *chosen_section(chosen, record)]
    lines += ["", "The runs are in `records/graphs`."]
    return "\n".join(lines) + "\n"


def effort(record: dict[str, Any]) -> str:
    """How long it took: all rows, and without those that neither the paper has nor frame it."""
    extra = ("raw features", "as published")
    core = sum(
        row.processor_seconds
        for part in record["data"].values()
        for row in rows_of(part)
        if not row.name.endswith(extra)
    )
    return (
        f"All runs took {record['processor_seconds'] / 3600:.1f} hours of one core. The paper's rows, untrained and "
        f"oracle took {core / 3600:.1f} of them, which is {core / 120:.0f} minutes on two cores."
    )


def graph_table(part: dict[str, Any]) -> list[str]:
    """One row for each method."""
    probes = [probe for probe in GRAPH_PROBES if probe in rows_of(part)[0].scores]
    header = ["row", "tau'", *(GRAPH_PROBES[probe] for probe in probes), "to InfoGraph, SVM", "to InfoGraph, scaled"]
    table = []
    for row, published in read_rows(part):
        cells = [row.name, tau(row), *(str(row.scores[probe]) for probe in probes)]
        cells += [interval(row.differences.get(probe)) for probe in ("svm", "svm_scaled")]
        cells += [percent(row.floored), str(len(row.by_seed["svm"]))]
        paper = published.get("paper")
        table.append([*cells, "" if paper is None else f"{paper:.2f}"])
    return markdown([*header, "floored", "n", "paper"], table)


def graph_findings(record: dict[str, Any]) -> list[str]:
    """Which rows differ from plain InfoGraph by more than chance, whether the paper's gains hold, and the ceiling."""
    return [overall(record), "", *(findings_of(name, rows_of(part)) for name, part in record["data"].items())]


def overall(record: dict[str, Any]) -> str:
    """All sets together: how many differences are certain, how many would be by luck, and the paper's gains."""
    compared, gains = [], []
    for part in record["data"].values():
        rows = read_rows(part)
        plain = next(published.get("paper") for row, published in rows if row.name == BASE)
        for row, published in rows:
            if row.name.startswith("+"):
                ours, paper = row.differences["svm"], published.get("paper")
                compared.append(ours)
                if paper is not None and plain is not None and ours.low is not None and ours.high is not None:
                    gains.append((paper - plain, ours.low, ours.high))
    clear = [difference for difference in compared if difference.sign]
    better = sum(difference.sign > 0 for difference in clear)
    inside = sum(low <= gain <= high for gain, low, high in gains)
    above = sum(gain > high for gain, _, high in gains)
    return (
        f"By the references' protocol {len(clear)} of {len(compared)} corrected rows differ from plain InfoGraph by "
        f"more than chance, {better} of them upwards; luck alone would make {0.05 * len(compared):.1f} so. The paper's "
        f"gain over its own plain row lies within our interval for {inside} of its {len(gains)} corrected rows, above "
        f"it for {above} and below it for {len(gains) - inside - above}. The oracle leaves out every false "
        "negative. For this it knows the labels of all graphs, including the test folds, so no correction can be "
        "expected to do better. Where the oracle is no better than plain, false negatives do not harm InfoGraph."
    )


def findings_of(name: str, rows: list[TableRow]) -> str:
    """One set: who is beyond chance by either protocol, the oracle, and whether training was worth it."""
    by_name = {row.name: row for row in rows}
    words = []
    for probe, protocol in (("svm", "by the references' protocol"), ("svm_scaled", "on scaled features")):
        for side, sign in (("above", 1), ("below", -1)):
            names = [
                f"{row.name} ({row.differences[probe].mean:+.2f}{of_the_oracle(row, by_name['oracle'], probe)})"
                for row in rows
                if row.name.startswith("+") and row.differences[probe].sign == sign
            ]
            if names:
                words.append(f"{protocol} {', '.join(names)} {'are' if len(names) > 1 else 'is'} {side} plain")
    found = "; ".join(words) or "no correction differs from plain by more than chance, by either protocol"
    best = max(rows, key=lambda row: row.scores["svm"].mean)
    frame = ", ".join(
        f"{row} minus plain {interval(by_name[row].differences['svm'])}"
        for row in ("oracle", "untrained", "raw features")
        if row in by_name
    )
    return (
        f"- **{name}**: {found}. By the references' protocol {frame}. The best mean is that of {best.name}, "
        f"{best.scores['svm']}."
    )


def of_the_oracle(row: TableRow, oracle: TableRow, probe: str) -> str:
    """Which share of the oracle's gain over plain a row has, where both are beyond chance."""
    gain, most = row.differences[probe], oracle.differences[probe]
    if most.sign < 1 or gain.mean <= 0:
        return ""
    return f", {gain.mean / most.mean:.0%} of the oracle's"


def search_section(search: dict[str, Any]) -> list[str]:
    """Every setting that was tried, by validation accuracy."""
    priors = ", ".join(f"{name} {value:.3f}" for name, value in search["priors"].items())
    lines = [
        f"Made by `{search['command']}`: plain, PUCL and the oracle in settings around the reference. They are "
        "compared on the inner folds, on which C is chosen too. No machine is judged on its own test fold, but over "
        "ten folds every graph's label takes part in the choice of a setting. PUCL's prior is the probability that "
        f"two graphs are of one class ({priors}). Features are scaled; differences to plain have 95 % intervals.",
    ]
    for name in search["priors"]:
        table = [
            [each.variant, str(each.plain), interval(each.pucl), interval(each.oracle), percent(each.floored)]
            for each in results_of(search)
            if each.data == name
        ]
        header = ["setting", "plain, %", "PUCL minus plain", "oracle minus plain", "floored"]
        lines += ["", f"### {name}", "", *markdown(header, table)]
    return [*lines, "", search_findings(search)]


def search_findings(search: dict[str, Any]) -> str:
    """In which settings a correction wins more than chance, in which it could, and which one is chosen."""
    results = results_of(search)
    reached = {
        variant: mean(each.plain.mean + each.pucl.mean for each in results if each.variant == variant)
        for variant in search["variants"]
    }
    chosen = max(reached, key=lambda variant: reached[variant])
    sets = ", the mean over the sets," if len(search["priors"]) > 1 else ""
    return (
        f"PUCL is above plain by more than chance {named(results, 'pucl')}, and the oracle {named(results, 'oracle')}. "
        "Where the oracle gains nothing, a correction has nothing to gain. Where the oracle gains much, its lead is "
        "too high a goal: it knows the labels of all graphs, including the test folds, and has learned some of them. "
        f"By PUCL's validation accuracy{sets} the setting to choose is "
        f"**{chosen}** ({reached[chosen]:.2f} %; the reference has {reached['reference']:.2f})."
    )


def results_of(search: dict[str, Any]) -> list[VariantResult]:
    """The results of a search by the probe that compares settings."""
    found = [conform(each, VariantResult, "a result") for each in search["settings"]]
    return [each for each in found if each.probe == YARDSTICK]


def named(results: list[VariantResult], row: Literal["pucl", "oracle"]) -> str:
    """Where this row is above plain by more than chance, in words."""
    found = [(each, getattr(each, row)) for each in results if getattr(each, row).sign > 0]
    cases = ", ".join(f"{each.data} with {each.variant} ({gain.mean:+.2f})" for each, gain in found)
    return f"in {len(found)} of {len(results)} cases" + (f" ({cases})" if found else "")


def chosen_section(chosen: dict[str, Any], reference: dict[str, Any]) -> list[str]:
    """The setting that was chosen on validation folds, on test folds."""
    lines = [f"Made by `{chosen['command']}`: every correction has the prior of the classes.", ""]
    for name, part in chosen["data"].items():
        here, there = (
            next(row.scores for row in rows_of(record["data"][name]) if row.name == BASE)
            for record in (chosen, reference)
        )
        lines.append(
            f"{findings_of(name, rows_of(part))} Plain has {here['svm']} here and {there['svm']} in the reference "
            f"setting; on scaled features {here['svm_scaled']} and {there['svm_scaled']}."
        )
    for name, part in chosen["data"].items():
        lines += ["", f"### {name} ({part['note']})", "", *graph_table(part)]
    return lines
