"""The paper's Table 1, on images."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pucl.runs.rows import TableRow
from pucl.runs.statistics import Difference
from pucl.runs.tables import read_rows
from pucl.texts import counted
from results.causes import causes
from results.words import OTHER_DIGITS, interval, markdown, percent, rows_of, tau

PROBES = {"linear": "linear, %", "knn": "nearest neighbours, %"}
PLAIN, OTHER, ORACLE, UNTRAINED = "plain", "plain, other t", "oracle", "untrained"


def table1_page(record: dict[str, Any], longer: dict[str, Any] | None = None) -> str:
    """docs/table1.md from records/images/table-1, and from table-1-longer where that is there."""
    config = next(iter(record["data"].values()))["config"]
    images = "all" if config["limit"] is None else f"{config['limit']:,}"
    lines = [
        "# Table 1: images",
        "",
        f"Made by `{record['command']}` with torch {record['torch']}: {images} images of each set, encoder "
        f"`{config['encoder']}` of width {config['width']} with stem `{config['stem']}`, {epochs_of(record)} at "
        f"batch {config['batch_size']}. The paper has ResNet-50, all images and 400 epochs, so its accuracies cannot "
        "be compared with ours. A linear classifier and nearest neighbours classify the frozen features of the test "
        "images. Differences are those of the linear classifier, taken seed by seed, with 95 % intervals (bold: more "
        "than chance). They are taken to plain at the reference's temperature, and to the better of the two plain "
        "rows. *Gap closed* is a row's difference to plain divided by the oracle's. It is shown where the oracle's "
        "lead is more than chance. A gain beyond 100 % does not come from false negatives, since the oracle has none. "
        f"All runs took {record['processor_seconds'] / 3600:.1f} hours of one core. {OTHER_DIGITS}",
        "",
        "## Findings",
        "",
        *(f"- **{name}**: {finding(rows_of(part))}" for name, part in record["data"].items()),
        "",
        "Over all parts: each row minus plain, with the same framework, data and seed. The interval is over parts:",
        "",
        *over_all_parts([rows_of(part) for part in record["data"].values()]),
    ]
    lines += causes(record)
    for name, part in record["data"].items():
        title = f"{name} ({part['note']})" if part["note"] else name
        lines += ["", f"## {title}", "", *image_table(part)]
    if longer is not None:
        lines += longer_section(record, longer)
    lines += ["", "The runs are in `records/images`."]
    return "\n".join(lines) + "\n"


def epochs_of(record: dict[str, Any]) -> str:
    """How long trainings are, and those of which framework are longer or shorter."""
    epochs = {part["config"]["framework"]: part["config"]["epochs"] for part in record["data"].values()}
    usual = next(iter(epochs.values()))
    others = "".join(f", of {name} {count}" for name, count in epochs.items() if count != usual)
    return counted(usual, "epoch") + others


def longer_section(record: dict[str, Any], longer: dict[str, Any]) -> list[str]:
    """Some parts again with more epochs: whether false negatives begin to matter when easy ones are learned."""
    lines = ["", "## Longer training", "", f"Made by `{longer['command']}`."]
    for name, part in longer["data"].items():
        short = record["data"][name]
        leads = [
            f"{interval(row.differences.get('linear'))} in {counted(each['config']['epochs'], 'epoch')}"
            for each in (short, part)
            for row in rows_of(each)
            if row.name == ORACLE
        ]
        lines += ["", f"**{name}**: oracle minus plain {' and '.join(leads)}. {finding(rows_of(part))}", ""]
        lines += image_table(part)
    return lines


def image_table(part: dict[str, Any]) -> list[str]:
    """One row for each method."""
    rows = rows_of(part)
    header = ["row", "tau'", *PROBES.values(), "to plain", "to the better plain", "gap closed", "floored", "n"]
    table = []
    for row, published in read_rows(part):
        cells = [row.name, tau(row), *(str(row.scores[probe]) for probe in PROBES)]
        cells += [interval(row.differences.get("linear")), interval(to_better_plain(row, rows))]
        share = gap_closed(row, rows)
        cells.append("none" if share is not None and share <= 0 else percent(share))
        cells += [percent(row.floored, 1), str(len(row.by_seed["linear"]))]
        numbers = (published.get(column) for column in ("paper", "authors"))
        cells += ["" if number is None else f"{number:.2f}" for number in numbers]
        table.append(cells)
    return markdown([*header, "paper", "its authors"], table)


def finding(rows: list[TableRow]) -> str:
    """What differs from plain by more than chance, and how much of the oracle's lead is closed."""
    to_plain = {row.name: row.differences.get("linear") for row in rows}
    sentences = [
        f"different from plain by more than chance: {verdict(to_plain)}.",
        f"Different from the better plain ({better_plain(rows).name}): "
        f"{verdict({row.name: to_better_plain(row, rows) for row in rows})}.",
        f"Oracle minus plain {interval(to_plain.get(ORACLE))}.",
    ]
    untrained = to_plain.get(UNTRAINED)
    if untrained is not None:
        learned = "" if untrained.sign < 0 else ": this training is too short for a conclusion"
        sentences.append(f"Untrained minus plain {interval(untrained)}{learned}.")
    best = max((row for row in rows if row.name != ORACLE), key=linear)
    sentences.append(f"Best without labels: {best.name}, {best.scores['linear']}.")
    text = " ".join(sentences)
    return text[0].upper() + text[1:]


def over_all_parts(parts: list[list[TableRow]]) -> list[str]:
    """One row for each method: its mean difference to plain, and to the better plain, over the parts."""
    to_plain, to_better = over_all(parts), over_all(parts, better_plain)
    table = []
    for name in to_plain:
        cells = [name]
        for over, count in (to_plain[name], to_better[name]):
            cells += [interval(over), str(count) if count else ""]
        table.append(cells)
    return markdown(["row", "to plain", "parts", "to the better plain", "parts"], table)


def over_all(
    parts: list[list[TableRow]], base_of: Callable[[list[TableRow]], TableRow] | None = None
) -> dict[str, tuple[Difference | None, int]]:
    """By row, its mean difference to a base (plain unless given) over the parts, and how many parts have one.

    Seeds of one part have much in common: each part is one number, and the interval is over parts.
    """
    base_of = plain_row if base_of is None else base_of
    found = {}
    for name in dict.fromkeys(row.name for rows in parts for row in rows):
        each = [between(row, base_of(rows)) for rows in parts for row in rows if row.name == name]
        means = [difference.mean for difference in each if difference is not None]
        found[name] = (Difference.between(means, [0.0] * len(means)) if means else None, len(means))
    return found


def between(row: TableRow, base: TableRow) -> Difference | None:
    """The difference of two rows by the linear classifier, by the seeds that both have; None of a row to itself."""
    if row == base:
        return None
    values = [dict(zip(seeds_of(each), each.by_seed["linear"], strict=True)) for each in (row, base)]
    common = sorted(values[0].keys() & values[1].keys())
    return Difference.between(*([each[seed] for seed in common] for each in values)) if common else None


def seeds_of(row: TableRow) -> Sequence[int]:
    """The seeds of its runs; records of earlier versions have all from 0."""
    return row.seeds or range(len(row.by_seed["linear"]))


def plain_row(rows: list[TableRow]) -> TableRow:
    """Plain at the reference's temperature."""
    return next(row for row in rows if row.name == PLAIN)


def verdict(differences: Mapping[str, Difference | None]) -> str:
    """The corrections whose difference is more than chance, by the name of the row."""
    sides: dict[int, list[str]] = {1: [], -1: []}
    for name, difference in differences.items():
        if name.startswith("+") and difference is not None and difference.sign:
            sides[difference.sign].append(f"{name} ({difference.mean:+.2f})")
    words = {1: "above", -1: "below"}
    return "; ".join(f"{', '.join(names)} {words[side]}" for side, names in sides.items() if names) or "no correction"


def linear(row: TableRow) -> float:
    """The mean accuracy of the linear classifier."""
    return row.scores["linear"].mean


def better_plain(rows: list[TableRow]) -> TableRow:
    """Plain at the temperature that suits it better, of the two that were tried."""
    return max((row for row in rows if row.name in (PLAIN, OTHER)), key=linear)


def to_better_plain(row: TableRow, rows: list[TableRow]) -> Difference | None:
    """The difference to it, seed by seed."""
    return between(row, better_plain(rows))


def gap_closed(row: TableRow, rows: list[TableRow]) -> float | None:
    """How much of the oracle's lead over plain this row has."""
    lead = next((each.differences.get("linear") for each in rows if each.name == ORACLE), None)
    own = row.differences.get("linear")
    if lead is None or not lead.sign or own is None or row.name in (ORACLE, UNTRAINED, PLAIN):
        return None
    return own.mean / lead.mean
