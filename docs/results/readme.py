"""What the README shows of the results: what the main job prints, and what the paper's tables came to."""

from collections import Counter
from typing import Any

from pucl.evaluation import known_numbers
from pucl.runs.rows import TableRow, share_of_lead
from results.graphs import overall
from results.study import findings
from results.table1 import ORACLE, PLAIN
from results.words import OTHER_DIGITS, interval, markdown, rows_of, with_results

LEADING, OTHERS = "retrieval", ("knn", "clustering", "linear")


def readme(
    text: str,
    digits: dict[str, Any],
    table1: dict[str, Any] | None,
    table2: dict[str, Any] | None,
    *studies: dict[str, Any] | None,
) -> str:
    """The same README with its results from the records."""
    lines = ["", *demo_table(digits), ""]
    lines += [f"Made by `{digits['command']}` with torch {digits['torch']}. {OTHER_DIGITS}", ""]
    parts = {name: part for study in studies if study is not None for name, part in study["data"].items()}
    lines += ["What to expect of `auto`, the correction without a prior ([measurement](docs/measurement.md)):", ""]
    lines += [*findings(parts), "", *measured(table1, table2), ""]
    return with_results(text, lines)


def demo_table(comparison: dict[str, Any]) -> list[str]:
    """One row for each row of the comparison, led by retrieval."""
    rows = rows_of(comparison)
    table = []
    for row in rows:
        difference, share = row.differences.get(LEADING), share_of_lead(row, rows, LEADING)
        cells = [row.name, str(row.scores[LEADING]), interval(difference)]
        cells += ["" if share is None else f"{share:.0%}", *(str(row.scores[number]) for number in OTHERS)]
        table.append([*cells, str(row.count)])
    known = known_numbers()
    others = [f"{known[number].short}, %" for number in OTHERS]
    header = ["SimCLR on digits", f"{known[LEADING].short}, %", "to plain (95 %)", "of oracle's lead", *others, "seeds"]
    return markdown(header, table)


def measured(table1: dict[str, Any] | None, table2: dict[str, Any] | None) -> list[str]:
    """A sentence on each of the paper's tables that was measured."""
    sentences = []
    if table1 is not None:
        parts = [rows_of(part) for part in table1["data"].values()]
        above, below = (counted(parts, sign) for sign in (1, -1))
        sentences.append(
            f"On images ([Table 1](docs/table1.md), {len(parts)} parts, small), rows that differ from {PLAIN} by more "
            f"than chance: upwards {above}; downwards {below}."
        )
    if table2 is not None:
        first = overall(table2).split(". ")[0]
        sentences.append(f"On graphs ([Table 2](docs/table2.md)), {first[0].lower()}{first[1:]}.")
    return sentences


def counted(parts: list[list[TableRow]], sign: int) -> str:
    """In how many parts each correction, and the oracle, is above plain (or below it) by more than chance."""
    found = Counter(
        row.name
        for rows in parts
        for row in rows
        if (row.name.startswith("+") or row.name == ORACLE)
        and "linear" in row.differences
        and row.differences["linear"].sign == sign
    )
    return ", ".join(f"{name} in {count}" for name, count in found.items()) or "none"
