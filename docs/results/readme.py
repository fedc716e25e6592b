"""What the README shows of the results: what the main job prints, and what to expect of `auto`."""

from typing import Any

from pucl.evaluation import known_numbers
from pucl.runs.rows import share_of_lead
from results.graphs import overall
from results.study import ORACLE, PLAIN, findings
from results.words import OTHER_DIGITS, interval, markdown, rows_of, with_results

LEADING, OTHERS = "retrieval", ("knn", "clustering", "linear")


def readme(
    text: str,
    digits: dict[str, Any],
    table2: dict[str, Any] | None,
    *studies: dict[str, Any] | None,
) -> str:
    """The same README with its results from the records."""
    lines = ["", *demo_table(digits), ""]
    lines += [f"Made by `{digits['command']}` with torch {digits['torch']}. {OTHER_DIGITS}", ""]
    parts = {name: part for study in studies if study is not None for name, part in study["data"].items()}
    lines += [
        "What to expect of `auto`, the correction without a prior ([measurement](docs/measurement.md)): differences to "
        f"{PLAIN} at {PLAIN}'s best temperature (bold: more than chance), and how much they close of the {ORACLE}'s "
        "lead.",
        "",
    ]
    lines += [*findings(parts), ""]
    if table2 is not None:
        sentence = overall(table2).split(". ")[0]
        lines += [f"On graphs ([Table 2](docs/table2.md)), {sentence[0].lower()}{sentence[1:]}.", ""]
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
