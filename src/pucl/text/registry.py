"""Data sets of texts by name or path."""

from pathlib import Path

from pucl.data.choosing import TEST_SHARE, check_share
from pucl.data.root import DataMissingError, data_root
from pucl.data.source import Source
from pucl.text.sources.banking77 import BANKING77
from pucl.text.sources.clinc150 import CLINC150
from pucl.text.sources.files import READERS, Columns, read_texts
from pucl.text.sources.requests import REQUESTS
from pucl.text.textset import TextData
from pucl.texts import did_you_mean

SOURCES: dict[str, Source[TextData]] = {source.name: source for source in (REQUESTS, CLINC150, BANKING77)}
"""The data sets that are known by name. A new one is a file in `sources` and an entry here."""


def load_texts(
    name_or_path: str | Path,
    *,
    root: Path | None = None,
    columns: Columns | None = None,
    test_share: float = TEST_SHARE,
) -> TextData:
    """Load texts.

    Args:
        name_or_path: A known name (requests, clinc150, banking77), or a file: .csv, .tsv, .jsonl or .parquet. A known
            name is preferred: write ``./requests`` for a file of that name.
        root: Directory of known sets; see `data_root`.
        columns: Columns of a file; see `read_texts`.
        test_share: Share of a file to hold out for tests. Known sets have their own test texts.

    Example:
        >>> load_texts("requests").train
        TextSet(576 texts, 8 classes: book a table, play music, set an alarm, ...)
    """
    check_share(test_share)
    if isinstance(name_or_path, str) and name_or_path in SOURCES:
        return SOURCES[name_or_path].load(data_root(root))
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return read_texts(path, columns, test_share)
    if path.exists() or isinstance(name_or_path, Path) or "/" in name_or_path or path.suffix.lower() in READERS:
        raise DataMissingError(f"there is no file {path}: expected texts in a file that ends in {', '.join(READERS)}")
    raise DataMissingError(
        f"no set of texts {name_or_path!r}.{did_you_mean(name_or_path, SOURCES)} Known are {', '.join(SOURCES)}; and "
        "there is no file of that name"
    )
