"""Words and tables for people: how pucl lays out a table, asks "did you mean" and says what to install."""

import difflib
from collections.abc import Iterable, Sequence


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows under a header, in columns, for a terminal.

    Args:
        rows: The header first. All have as many cells.

    Example:
        >>> print(table([["row", "accuracy"], ["plain", "50.9"]]))
        row    accuracy
        ---------------
        plain  50.9
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names the nearest of the known names, with a space before it; nothing where none is near.

    Capital letters and small ones are the same to it.

    Example:
        >>> did_you_mean("digit", ["digits", "cifar10"])
        " Did you mean 'digits'?"
    """
    by_name = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_name, n=1)
    return f" Did you mean {by_name[close[0]]!r}?" if close else ""


def install(extra: str) -> str:
    """How to install an extra, or several with commas between them.

    Example:
        >>> install("umap")
        "pip install '.[umap]' where pucl's sources are"
    """
    return f"pip install '.[{extra}]' where pucl's sources are"
