"""Text for people: numbers, counts and tables, what may go to a terminal, "did you mean" and what to install."""

import base64
import difflib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def fixed(value: float, digits: int = 2) -> str:
    """A number with a fixed count of digits after the point.

    Every table, chart and page rounds accuracies and differences with this function, so that they agree. A tie, such
    as 35.625, goes to the even digit; JavaScript's ``toFixed`` would round it up.

    Example:
        >>> fixed(35.625), fixed(35.6251)
        ('35.62', '35.63')
    """
    return f"{value:.{digits}f}"


def signed(value: float) -> str:
    """A difference with its sign, rounded as `fixed` does.

    Example:
        >>> signed(1.234), signed(-0.5)
        ('+1.23', '-0.50')
    """
    return f"{value:+.2f}"


def percent(share: float, digits: int = 2) -> str:
    """A share from 0 to 1 in percent, rounded as `fixed` does.

    Example:
        >>> percent(0.35625)
        '35.62%'
    """
    return f"{fixed(100 * share, digits)}%"


def counted(count: int, noun: str) -> str:
    """A number of things, in the singular where there is one.

    Example:
        >>> counted(1, "epoch"), counted(1200, "epoch")
        ('1 epoch', '1,200 epochs')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def slug(name: str) -> str:
    """A name as one level of a path: lower-case letters, digits, dots, hyphens and underscores alone.

    Example:
        >>> slug("PUCL, alpha 0.1"), slug("+DEB as published")
        ('pucl-alpha-0.1', 'deb-as-published')
    """
    return re.sub(r"[^\w.]+", "-", name.lower()).strip("-.") or "unnamed"


def capitalised(text: str) -> str:
    """Text that begins with a capital letter.

    Example:
        >>> capitalised("linear classifier"), capitalised("SVM")
        ('Linear classifier', 'SVM')
    """
    return text[:1].upper() + text[1:]


def shortened(text: str, longest: int) -> str:
    """Shorten a text to a number of characters, with an ellipsis where it was cut.

    Example:
        >>> shortened("plain", 8), shortened("a long name", 8)
        ('plain', 'a long …')
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def printable(text: str) -> str:
    r"""Text that is safe to print on a terminal: control characters are escaped.

    Names of files, classes and data come from others. A control character among them could move the cursor, change the
    title of the window or forge a line.

    Example:
        >>> printable("runs/\x1b[2Jred"), printable("two\nlines")
        ('runs/\\x1b[2Jred', 'two\\nlines')
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def say(text: str = "", *, error: bool = False) -> None:
    """Print lines, each `printable`; every command prints with this function."""
    print("\n".join(map(printable, text.split("\n"))), file=sys.stderr if error else sys.stdout, flush=True)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows under a header, in columns, for a terminal.

    Example:
        >>> print(table([["row", "accuracy"], ["plain", "50.9"]]))
        row    accuracy
        ---------------
        plain  50.9
    """
    rows = [[printable(cell) for cell in row] for row in rows]
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


def base64_of(array: Any) -> str:
    """Bytes of a numpy array as text, little-endian."""
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()
