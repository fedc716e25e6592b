"""Why a correction wins or loses on images: anchors at the floor, the share it assumes, and the length of training."""

from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from pucl.images.registry import SOURCES
from pucl.runs.collection import Collection
from pucl.runs.rows import TableRow
from results.words import markdown, percent, rows_of

RUNS = Path(__file__).resolve().parents[2] / "records" / "images" / "table-1"
MANY = 0.1  # Share of floored anchors that is worth reporting.

History = list[dict[str, float]]


def causes(record: dict[str, Any], runs: Path = RUNS) -> list[str]:
    """A section of docs/table1.md, from the metrics of every epoch of the runs."""
    parts = record["data"]
    corrected = list(dict.fromkeys(row.name for part in parts.values() for row in assuming(part)))
    table = []
    for name, part in parts.items():
        halfway, end = (lead(part, runs, share) for share in (0.5, 1.0))
        floors = [percent(floors_of(part, runs).get(row), 0) for row in corrected]
        assumed = max(row.tau_plus or 0.0 for row in assuming(part))
        table.append([name, f"{1 / classes(part):.2f}", f"{assumed:.3f}", points(halfway), points(end), *floors])
    header = ["part", "true share", "tau' at most", "lead halfway", "lead at the end"]
    return [
        "",
        "## Why",
        "",
        "These are means over seeds, from the metrics of each epoch. *True share* is the share of unlabelled samples "
        "that are of the anchor's class; *tau'* is the share that a row assumes. *Lead* is the accuracy of oracle "
        "minus plain, in points, by nearest neighbours among training images: what can be gained by knowing the "
        "classes. The last columns show the share of floored anchors in the epoch with most of them. A floored anchor "
        "learns nothing from unlabelled samples.",
        "",
        *markdown([*header, *(f"{row} floored" for row in corrected)], table),
        "",
        *(f"- {sentence}" for sentence in in_words(parts, runs)),
    ]


def in_words(parts: dict[str, Any], runs: Path) -> list[str]:
    """The same in words, as far as it explains a loss or a missing gain."""
    sentences = []
    for name, part in parts.items():
        worst = {row: share for row, share in floors_of(part, runs).items() if share >= MANY}
        if worst:
            shares = ", ".join(f"{row} {percent(share)}" for row, share in worst.items())
            fallen = [row.name for row in rows_of(part) if row.name in worst and sign_of(row) < 0]
            loss = f"; at the end below plain by more than chance: {', '.join(fallen)}" if fallen else ""
            clear = [row for row in floors_of(part, runs) if row not in worst]
            others = f", unlike those of {', '.join(clear)}" if clear else ""
            sentences.append(
                f"**{name}**: at temperature {part['config']['temperature']:g} many anchors are floored ({shares})"
                f"{others}{loss}."
            )
    oracles = {name: row for name, part in parts.items() for row in rows_of(part) if row.name == "oracle"}
    small = [name for name, row in oracles.items() if "linear" in row.differences and sign_of(row) < 1]
    if small:
        sentences.append(
            f"Where the oracle is not above plain by more than chance ({', '.join(small)}), nothing shows that false "
            "negatives harm this training. A row that gains there gains for another reason."
        )
    return sentences


def floors_of(part: dict[str, Any], runs: Path) -> dict[str, float]:
    """By row that assumes a share of hidden positives: anchors at the floor, in the worst epoch."""
    return {
        row.name: mean(max(each["floored"] for each in history) for history in histories(part, row.name, runs))
        for row in assuming(part)
    }


def lead(part: dict[str, Any], runs: Path, share: float) -> float | None:
    """Oracle minus plain by nearest neighbours, in points, after this share of the training; None if not measured."""
    found = []
    for row in ("oracle", "plain"):
        seen = [history[round(share * len(history)) - 1].get("knn") for history in histories(part, row, runs)]
        values = [value for value in seen if value is not None]
        if not values:
            return None
        found.append(100 * mean(values))
    return found[0] - found[1]


def histories(part: dict[str, Any], row: str, runs: Path) -> list[History]:
    """The metrics of every epoch of the runs of a row."""
    return [collected(runs).history(path) for path in part["runs"].get(row, [])]


@cache
def collected(runs: Path) -> Collection:
    """The runs of a table, read once."""
    return Collection(runs)


def assuming(part: dict[str, Any]) -> list[TableRow]:
    """The rows that subtract hidden positives."""
    return [row for row in rows_of(part) if row.tau_plus]


def sign_of(row: TableRow) -> int:
    """1 if a row is above plain by more than chance, -1 if it is below; 0 if it may be chance."""
    return row.differences["linear"].sign if "linear" in row.differences else 0


def classes(part: dict[str, Any]) -> int:
    """How many classes the data of a part have, all of the same size."""
    return SOURCES[part["config"]["data"]].classes


def points(value: float | None) -> str:
    """A difference of two accuracies."""
    return "" if value is None else f"{value:+.1f}"
