"""Importing sentence-transformers takes seconds: quick tests do without the files that need it."""

from pathlib import Path

import pytest

NEEDS_THE_LIBRARY = "test_sentence_transformers"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose tests are all slow, before they are imported."""
    quick = config.getoption("markexpr", "") == "not slow"
    return True if quick and collection_path.name.startswith(NEEDS_THE_LIBRARY) else None
