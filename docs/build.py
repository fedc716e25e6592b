"""Write the pages that show results, from the records that the commands left: ``python docs/build.py``.

No number on these pages is typed by hand. A test compares them with what this program would write.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "records"


def theory_page(record: dict[str, Any]) -> str:
    """docs/theory.md from records/theory/theory.json."""
    settings = record["settings"]
    lines = [
        "# The theory, by numbers",
        "",
        f"Made by `{record['command']}` with torch {record['torch']}. The world: {settings['classes']} classes on the "
        f"sphere (von Mises-Fisher, concentration {settings['concentration']:g}), temperature "
        f"{settings['temperature']:g}, {settings['trials']:,} anchors, seed {settings['seed']}. There the laws of "
        "positives, negatives and unlabelled samples are known in closed form, and SCAR holds by construction; for "
        "augmented images it does not.",
        "",
        "![How far each loss is from the ideal loss](../records/theory/theory.png)",
        "",
        "## Lemma 1",
        "",
        f"As an equation between densities, at {record['lemma_densities']['points']:,} points: largest relative error "
        f"{record['lemma_densities']['largest_error']:.1e}. On {settings['draws']:,} samples that were drawn, labelled "
        "with probability c and thinned out:",
        "",
        "| quantity | by the lemma | measured |",
        "|---|---|---|",
    ]
    lines += [
        f"| {check['quantity']} | {check['expected']:.5f} | {with_error(check['measured'])} |"
        for check in record["lemma_samples"]
    ]
    lines += [
        "",
        "## Theorem 1",
        "",
        "Each loss less the ideal loss, with its standard error. *Exact* is the paper's loss with the true mean over "
        "negatives, which is what the theorem bounds, by (e^(2/t) - 1) / (2 sqrt N). *Corrected* is what training "
        f"uses: an estimate from N unlabelled samples and 1 or {settings['positives']} positives.",
    ]
    for title, name in (("N varies", "over_unlabelled"), ("alpha varies", "over_alpha"), ("c varies", "over_c")):
        lines += ["", f"### {title}", "", *theory_table(record[name], settings["positives"])]
    return "\n".join(lines) + "\n"


def theory_table(rows: list[dict[str, Any]], positives: int) -> list[str]:
    """One row per choice of N, alpha and c."""
    header = (
        "N",
        "alpha",
        "c",
        "tau'",
        "standard",
        "corrected, M+ = 1",
        f"corrected, M+ = {positives}",
        "exact",
        "bound",
        "floored, M+ = 1",
    )
    table = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in rows:
        biases = [row[name]["bias"] for name in ("standard", "corrected_one", "corrected_several", "exact")]
        cells = [f"{row['unlabelled']}", f"{row['alpha']:g}", f"{row['c']:g}", f"{row['tau_plus']:.3f}"]
        cells += [with_error(bias) for bias in biases]
        cells += [f"{row['bound']:.3g}", f"{row['corrected_one']['floored']:.1%}"]
        table.append("| " + " | ".join(cells) + " |")
    return table


def with_error(estimate: dict[str, float]) -> str:
    """A value and its standard error."""
    return f"{estimate['value']:+.5f} ± {estimate['error']:.5f}"


def benchmarks_page(usual: dict[str, Any], large: dict[str, Any], training: dict[str, Any] | None) -> str:
    """docs/benchmarks.md from records/bench; how fast training is, once that was measured."""
    machine = usual["machine"]
    lines = [
        "# Time and memory",
        "",
        f"Forward and backward of a loss of two views, float32, dimension {usual['settings']['dim']}, on "
        f"{machine['cores']} cores ({machine['cpu']}), torch {usual['versions']['torch']}. *Dense* holds the matrix of "
        "all pairs, *streaming* does not. All contenders run in turn on the same data, and ratios are the median over "
        "rounds, with quartiles. *Products* are the bare matrix products that streaming cannot do without. Peaks of "
        "memory are above inputs, each in a process of its own.",
        "",
        f"Made by `{usual['command']}`:",
        "",
        *benchmark_table(usual),
        "",
        f"Where the matrix would not fit, made by `{large['command']}`:",
        "",
        *benchmark_table(large),
        "",
        "Left to itself (`streaming=None`) a loss streams where that is faster: plain, DEB, Hard and PUCL from batches "
        "of a few hundred samples on. Ring and the Jensen-Shannon objective, which are slower by rows than with the "
        "matrix, stream only where the matrix would take a quarter of a gigabyte.",
    ]
    absent = ", ".join(usual["absent_peers"])
    if absent:
        lines += ["", f"Not installed where this was measured: {absent}."]
    if training is not None:
        lines += ["", *training_section(training)]
    return "\n".join(lines) + "\n"


def training_section(record: dict[str, Any]) -> list[str]:
    """What a training step costs beyond its encoder, and what views cost."""
    machine, settings = record["machine"], record["settings"]
    lines = [
        "## A training step",
        "",
        f"A whole step (views, encoder, head, PUCL's loss, Adam, and the books that are kept) against the *bare "
        f"encoder*: forward and backward of the same tensors with the same gradients, and nothing else. For MoCo the "
        f"key encoder's forward pass counts as encoder too. Images of {settings['size']} x {settings['size']}, "
        f"float32, torch on {machine['threads']} of {machine['cores']} cores ({machine['cpu']}), torch "
        f"{record['versions']['torch']}. All take turns, and ratios are the median over rounds, with quartiles. "
        f"*Plain format* is the bare encoder in torch's default memory format over the same with channels last, "
        f"which is what encoders use. Peaks are those of a first step, the optimiser's state included.",
        "",
        f"Made by `{record['command']}`:",
        "",
        *training_table(record),
    ]
    if record["views"]:
        lines += [
            "",
            "SimCLR's views, of a whole batch at once and by Pillow image by image (crop, flip, jitter, grey, blur, "
            "to a tensor, normalised; nothing is decoded), which has one thread. *Pillow* draws its chances from torch "
            "and ends in torch, as torchvision's transforms do; *lean* is without torch:",
            "",
            *views_table(record),
        ]
    return lines


def training_table(record: dict[str, Any]) -> list[str]:
    """One row per framework and encoder."""
    header = ["framework", "encoder", "batch", "step, ms", "bare encoder, ms", "step / encoder"]
    header += ["views, ms", "loss, ms", "optimiser, ms", "plain format / channels last", "images / s", "step, MB"]
    table = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in record["rows"]:
        by_name, ratios = row["contenders"], row["ratios"]
        cells = [row["framework"], row["encoder"], f"{row['batch']:,}"]
        cells += [milliseconds(by_name[name]) for name in ("step", "encoder")]
        cells += [ratio(ratios["step/encoder"])]
        cells += [milliseconds(by_name[name]) for name in ("views", "loss", "optimiser")]
        cells += [ratio(ratios.get("encoder_plain_format/encoder")), f"{row['images_per_second']:,.0f}"]
        cells += [megabytes(by_name["step"])]
        table.append("| " + " | ".join(cells) + " |")
    return table


def views_table(record: dict[str, Any]) -> list[str]:
    """One row per number of threads."""
    header = ["images", "threads", "ours, ms", "Pillow, ms", "lean, ms", "Pillow / ours", "lean / ours"]
    table = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for cost in record["views"]:
        cells = [f"{cost['batch']:,} of {cost['size']} x {cost['size']}", f"{cost['threads']}"]
        cells += [milliseconds({"milliseconds": cost[name]}) for name in ("ours", "pillow", "lean")]
        table.append("| " + " | ".join([*cells, ratio(cost["speedup"]), ratio(cost["lean_speedup"])]) + " |")
    return table


def benchmark_table(record: dict[str, Any]) -> list[str]:
    """One row per loss and batch size."""
    header = ["loss", "batch", "dense, ms", "streaming, ms", "dense / streaming", "streaming / products"]
    header += ["dense, MB", "streaming, MB", "pytorch-metric-learning, ms"]
    table = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in record["rows"]:
        by_name, ratios = row["contenders"], row["ratios"]
        cells = [row["loss"], f"{row['batch']:,}"]
        cells += [milliseconds(by_name.get(name)) for name in ("dense", "streaming")]
        cells += [ratio(ratios.get(name)) for name in ("dense/streaming", "streaming/products")]
        cells += [megabytes(by_name.get(name)) for name in ("dense", "streaming")]
        cells += [milliseconds(by_name.get("pml"))]
        table.append("| " + " | ".join(cells) + " |")
    return table


def milliseconds(contender: dict[str, Any] | None) -> str:
    """The median time, if it was measured."""
    times = (contender or {}).get("milliseconds")
    return f"{times['median']:,.3g}" if times and times["median"] < 100 else f"{times['median']:,.0f}" if times else ""


def megabytes(contender: dict[str, Any] | None) -> str:
    """The peak of memory, if it was measured."""
    peak = (contender or {}).get("peak") or {}
    return f"{peak['bytes'] / 1e6:,.0f}" if peak.get("bytes") else ""


def ratio(quartiles: dict[str, float] | None) -> str:
    """A median ratio with its quartiles."""
    if not quartiles:
        return ""
    return f"{quartiles['median']:.2f} ({quartiles['lower_quartile']:.2f} to {quartiles['upper_quartile']:.2f})"


def spread(values: dict[str, float]) -> str:
    """A mean with its standard deviation."""
    return f"{values['mean']:.2f} ± {values['deviation']:.2f}"


def images_page(comparison: dict[str, Any]) -> str:
    """docs/images.md from records/images/cifar10-small."""
    base = comparison["base"]
    runs = [(RECORDS / CIFAR10).parent / place for places in comparison["runs"].values() for place in places]
    results = {run: json.loads((run / "result.json").read_text()) for run in runs}
    machine = json.loads((runs[0] / "environment.json").read_text())
    trained = [result for result in results.values() if "loss" in result]
    slowest = max(result["seconds"] for result in trained) / 60
    lines = [
        "# Images: what was measured",
        "",
        "## CIFAR10 in a quarter of an hour",
        "",
        f"Made by `{comparison['command']}` with torch {comparison['torch']} and {machine['threads']} threads: SimCLR, "
        f"encoder `{base['encoder']}` with stem `{base['stem']}`, {base['epochs']} epochs of {trained[0]['images']:,} "
        f"images at batch {base['batch_size']}, temperature {base['temperature']:g}. A linear classifier and nearest "
        "neighbours on the frozen features, on the 10,000 test images. Training took "
        f"{min(result['seconds'] for result in trained) / 60:.1f} to {slowest:.1f} minutes a seed; peak memory "
        f"{max(result['peak_memory_mib'] for result in trained):,.0f} MiB.",
        "",
        "| correction | tau' | linear, % | by seed | nearest neighbours, % | floored | images/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in comparison["lines"]:
        mine = [results[(RECORDS / CIFAR10).parent / place] for place in comparison["runs"][line["name"]]]
        speeds = [result["samples_per_second"] for result in mine if "samples_per_second" in result]
        cells = [
            line["name"],
            "" if line["tau_plus"] is None else f"{line['tau_plus']:.3f}",
            spread(line["scores"]["linear"]),
            ", ".join(f"{100 * result['linear']:.2f}" for result in mine),
            spread(line["scores"]["knn"]),
            "" if line["floored"] is None else f"{line['floored']:.1%}",
            f"{min(speeds):.0f} to {max(speeds):.0f}" if speeds else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "± is the standard deviation over seeds. The runs are in `records/images/cifar10-small`; other programs ran "
        "beside some of them, so their times are upper bounds. The settings of the recipe were found by two short "
        "runs of one seed whose test accuracy was looked at; no choice was made between the runs shown.",
    ]
    return "\n".join(lines) + "\n"


GRAPH_PROBES = {"svm": "SVM, %", "svm_scaled": "SVM on scaled features, %", "knn": "nearest neighbours, %"}


def table2_page(record: dict[str, Any], search: dict[str, Any] | None, chosen: dict[str, Any] | None) -> str:
    """docs/table2.md from records/graphs."""
    config = next(iter(record["data"].values()))["config"]
    lines = [
        "# Table 2: graphs, measured in full",
        "",
        f"Made by `{record['command']}` with torch {record['torch']}: InfoGraph on all graphs of each set, "
        f"{config['epochs']} epochs at batch {config['batch_size']}, {config['layers']} layers of {config['hidden']}, "
        f"learning rate {config['learning_rate']:g}, one estimate for each {config['share']}. A support vector machine "
        "on ten folds by the references' protocol, trained anew and with other folds for each seed, the same folds for "
        "every row; and the same on scaled features. Differences are to plain InfoGraph, seed by seed, with their 95 % "
        f"intervals. All runs took {record['processor_seconds'] / 3600:.1f} hours of one core.",
        "",
        "*raw features* are the sums over nodes, without an encoder; *as published* is the loss of HCL's program, "
        "whose signs are wrong; the *oracle* knows which graphs are of one class. *Paper* is what the paper has.",
    ]
    lines += ["", "## What it says", "", *graph_findings(record)]
    for name, part in record["data"].items():
        lines += ["", f"## {name}", "", *graph_table(part["lines"])]
    if search is not None:
        lines += ["", "## Where a correction earns its keep", "", *search_section(search)]
    if chosen is not None:
        lines += ["", "## The chosen setting", "", *chosen_section(chosen)]
    lines += ["", "The runs are in `records/graphs`."]
    return "\n".join(lines) + "\n"


def graph_table(rows: list[dict[str, Any]]) -> list[str]:
    """One row for each method."""
    probes = [probe for probe in GRAPH_PROBES if probe in rows[0]["scores"]]
    lines = [
        f"| row | tau' | {' | '.join(GRAPH_PROBES[probe] for probe in probes)} | to InfoGraph, SVM | to InfoGraph, "
        "scaled | floored | n | paper |",
        f"|{'---|' * (len(probes) + 7)}",
    ]
    for row in rows:
        cells = [row["name"], "" if row["tau_plus"] is None else f"{row['tau_plus']:.3f}"]
        cells += [spread(row["scores"][probe]) for probe in probes]
        cells += [interval(row["differences"].get(probe)) for probe in ("svm", "svm_scaled")]
        cells += ["" if row["floored"] is None else f"{row['floored']:.0%}", str(len(row["by_seed"]["svm"]))]
        cells.append("" if row.get("paper") is None else f"{row['paper']:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def interval(difference: dict[str, float | None] | None) -> str:
    """A difference with its interval; bold where that is on one side of zero."""
    if not difference:
        return ""
    mean, low, high = (difference[name] for name in ("mean", "low", "high"))
    if low is None or high is None:
        return f"{mean:+.2f}"
    text = f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"
    return f"**{text}**" if low * high > 0 else text


def graph_findings(record: dict[str, Any]) -> list[str]:
    """Which rows differ from plain InfoGraph by more than chance, and whether training was worth it."""
    lines = []
    for name, part in record["data"].items():
        rows = {row["name"]: row for row in part["lines"]}
        verdicts: dict[str, list[str]] = {"above": [], "below": []}
        for row in part["lines"]:
            difference = row["differences"].get("svm")
            if difference and row["name"].startswith("+") and difference["low"] * difference["high"] > 0:
                verdicts["above" if difference["mean"] > 0 else "below"].append(
                    f"{row['name']} ({difference['mean']:+.2f}; the paper's gain is {paper_gain(rows, row)})"
                )
        words = [
            f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} {side} plain by more than chance"
            for side, names in verdicts.items()
            if names
        ]
        found = "; ".join(words) or "no correction differs from plain by more than chance"
        best = max(part["lines"], key=lambda row: row["scores"]["svm"]["mean"])
        lines.append(
            f"- **{name}**: {found}. Oracle less plain {interval(rows['oracle']['differences']['svm'])}, untrained "
            f"less plain {interval(rows['untrained']['differences']['svm'])}. The best mean is that of {best['name']}, "
            f"{spread(best['scores']['svm'])}."
        )
    return lines


def paper_gain(rows: dict[str, dict[str, Any]], row: dict[str, Any]) -> str:
    """What the paper has this row above its plain one."""
    if row.get("paper") is None:
        return "not known"
    return f"{row['paper'] - rows['InfoGraph']['paper']:+.2f}"


def search_section(search: dict[str, Any]) -> list[str]:
    """Every setting that was tried, by validation accuracy."""
    priors = ", ".join(f"{name} {value:.3f}" for name, value in search["priors"].items())
    lines = [
        f"Made by `{search['command']}`: plain, PUCL and the oracle in settings around the reference, compared on the "
        "inner folds, by which C is chosen; no test fold was looked at. PUCL has the prior of the classes, the chance "
        f"that two graphs are of one class ({priors}). Scaled features; differences to plain with 95 % intervals.",
    ]
    for name in search["priors"]:
        lines += ["", f"### {name}", "", "| setting | plain, % | PUCL less plain | oracle less plain | floored |"]
        lines.append("|---|---|---|---|---|")
        for row in search["settings"]:
            if row["data"] == name and row["probe"] == "svm_scaled":
                cells = [row["variant"], spread(row["plain"]), interval(row["pucl"]), interval(row["oracle"])]
                lines.append(f"| {' | '.join([*cells, format(row['floored'], '.0%')])} |")
    return lines


def chosen_section(chosen: dict[str, Any]) -> list[str]:
    """The setting that was chosen on validation folds, on test folds."""
    lines = [f"Made by `{chosen['command']}`."]
    for name, part in chosen["data"].items():
        lines += ["", f"### {name}", "", *graph_table(part["lines"])]
    return lines


CIFAR10 = "images/cifar10-small/comparison.json"
PAGES: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "theory.md": (theory_page, ("theory/theory.json",)),
    "benchmarks.md": (benchmarks_page, ("bench/loss.json", "bench/loss-large.json", "bench/train.json")),
    "images.md": (images_page, (CIFAR10,)),
    "table2.md": (
        table2_page,
        ("graphs/table-2/table.json", "graphs/settings/settings.json", "graphs/table-2-chosen/table.json"),
    ),
}
"""Each page, what writes it, and the records it is written from."""

OPTIONAL = (
    "bench/train.json",
    "graphs/table-2/table.json",
    "graphs/settings/settings.json",
    "graphs/table-2-chosen/table.json",
)
"""Records without which their pages are shorter."""


def built() -> dict[Path, str]:
    """Every page and its text."""
    return {
        ROOT / "docs" / name: page(*(loaded(record) for record in records))
        for name, (page, records) in PAGES.items()
        if (RECORDS / records[0]).exists() or records[0] not in OPTIONAL
    }


def loaded(record: str) -> dict[str, Any] | None:
    """A record; None for an optional one that is not there."""
    path = RECORDS / record
    if record in OPTIONAL and not path.exists():
        return None
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def main() -> int:
    """Write all pages."""
    for path, text in built().items():
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
