"""What false negatives cost by each yardstick, and how much each correction brings back."""

from collections.abc import Sequence
from typing import Any

from pucl.evaluation import known_numbers
from pucl.runs.rows import share_of_lead
from results.words import OTHER_DIGITS, interval, markdown, rows_of

LEADING, AUTO, PLAIN, ORACLE = "retrieval", "auto", "plain", "oracle"
SHOWN = (("retrieval", "knn"), ("clustering", "fewshot", "linear"))
"""The yardsticks of the two tables of a part; the records have all."""


def study_page(*records: dict[str, Any] | None) -> str:
    """docs/measurement.md from records/study, and from the other studies that are there.

    Args:
        records: The table of rows and the table of temperatures of each study; None for one that is not there. Graphs
            have no temperatures.
    """
    studies = [rows for rows in records[::2] if rows is not None]
    commands = " and ".join(f"`{rows['command']}`" for rows in studies)
    parts = {name: part for rows in studies for name, part in rows["data"].items()}
    choices = {name: part for choice in records[1::2] if choice is not None for name, part in choice["data"].items()}
    lines = [
        "# What false negatives cost, and how much comes back",
        "",
        f"Made by {commands} with torch {studies[0]['torch']}. The temperature of each row was chosen on "
        "validation images, which are training images that were held out, with one seed. Then each row was trained at "
        f"the temperature that is best for {PLAIN}, and at its own best one if that is another (named behind the row), "
        "and measured on the test images. Differences are taken seed by seed, with 95 % intervals (bold: more than "
        f"chance). *Closed* is the difference of a row to {PLAIN}, divided by that of the {ORACLE}, whose loss leaves "
        f"out all false negatives; it is shown where the {ORACLE}'s lead is more than chance. {OTHER_DIGITS}",
        "",
        "## Findings",
        "",
        *findings(parts),
    ]
    for name, part in parts.items():
        lines += ["", f"## {name}", "", f"{part['note'][0].upper()}{part['note'][1:]}.", ""]
        for shown in SHOWN:
            lines += [*part_table(part, shown), ""]
        if name in choices:
            lines += ["By validation images, retrieval in %:", "", *choice_table(choices[name])]
    return "\n".join([*lines, "", "The runs are in `records/`."]) + "\n"


def findings(parts: dict[str, dict[str, Any]]) -> list[str]:
    """For each part what the automatic correction closes, and in how many cells of all it is below plain."""
    lines, cells, below = [], 0, []
    for name, part in parts.items():
        rows = rows_of(part)
        auto = next((row for row in rows if row.name == AUTO), None)
        if auto is None:
            continue
        words = []
        for number in ("retrieval", "knn"):
            share = share_of_lead(auto, rows, number)
            closed = "" if share is None else f", {share:.0%} of the {ORACLE}'s lead"
            words.append(f"{known_numbers()[number].short} {interval(auto.differences[number])}{closed}")
        lines.append(f"- **{name}**, {AUTO} to {PLAIN}: {'; '.join(words)}.")
        cells += len(auto.differences)
        below += [f"{number} on {name}" for number, difference in auto.differences.items() if difference.sign < 0]
    if cells:
        named = f" ({', '.join(below)})" if below else ""
        luck = f"luck alone would make {0.025 * cells:.1f} so"
        lines.append(f"- {AUTO} is below {PLAIN} by more than chance in {len(below)} of {cells} cells{named}; {luck}.")
    return lines


def part_table(part: dict[str, Any], numbers: Sequence[str]) -> list[str]:
    """One row for each method, with some of the numbers."""
    rows, known = rows_of(part), known_numbers()
    shown = [number for number in numbers if any(number in row.scores for row in rows)]
    header = ["row"]
    for number in shown:
        header += [f"{known[number].short}, %", f"to {PLAIN}", "closed"]
    table = []
    for row in rows:
        cells = [row.name]
        for number in shown:
            score, difference = row.scores.get(number), row.differences.get(number)
            share = share_of_lead(row, rows, number)
            cells += ["" if score is None else str(score), interval(difference)]
            cells.append("" if share is None else f"{share:.0%}")
        table.append(cells)
    return markdown(header, table)


def choice_table(part: dict[str, Any]) -> list[str]:
    """Rows by temperatures; the best of each row is bold."""
    scores: dict[str, dict[str, float]] = {}
    for each in rows_of(part):
        row, temperature = each.name.rsplit(" at ", 1)
        if LEADING in each.scores:
            scores.setdefault(row, {})[temperature] = each.scores[LEADING].mean
    temperatures = list(dict.fromkeys(temperature for found in scores.values() for temperature in found))
    table = []
    for row, found in scores.items():
        best = max(found, key=found.__getitem__)
        cells = [f"{found[each]:.2f}" if each in found else "" for each in temperatures]
        table.append([row, *(f"**{c}**" if each == best else c for each, c in zip(temperatures, cells, strict=True))])
    return markdown(["row", *(f"t {each}" for each in temperatures)], table)
