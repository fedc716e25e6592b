"""What is wrong with data, in words."""

from pucl.texts import install

LONGEST_REASON = 160  # Characters of another library's message that ours repeat.


class DataError(ValueError):
    """Data that cannot be used as it is; the message says what is wrong with which file or array."""


class ExtraMissingError(DataError):
    """Reading this kind of data needs a package that is not installed."""

    def __init__(self, purpose: str, package: str) -> None:
        super().__init__(f"{purpose} needs {package}, which is not installed: {install('images,graphs')}")


def reason_of(error: BaseException) -> str:
    """What a library says of a damaged file, as part of a sentence: some show the bytes themselves."""
    line = str(error).partition("\n")[0] or type(error).__name__
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."
