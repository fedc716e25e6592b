"""Errors about data."""

from pucl.texts import install

LONGEST_REASON = 160  # Characters of another library's message that an error repeats.


class DataError(ValueError):
    """Data that cannot be used. The message names the file or array and what is wrong with it."""


class ExtraMissingError(DataError):
    """A package that is needed for this is not installed.

    Args:
        purpose: What needs it.
        package: Its name.
        extra: The extra of pucl that installs it, or several with commas between them.
    """

    def __init__(self, purpose: str, package: str, extra: str = "images,graphs") -> None:
        super().__init__(f"{purpose} needs {package}, which is not installed: {install(extra)}")


def reason_of(error: BaseException) -> str:
    """The first line of an exception's message, shortened: some libraries print the bytes of a file."""
    line = str(error).partition("\n")[0] or type(error).__name__
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."
