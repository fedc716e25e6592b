"""Pages for tests: runs that never ran, and what a page holds for its own program."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.frameworks.recipes import recipe
from pucl.reports.page import write_page
from pucl.reports.page.records import gather

Record = dict[str, Any]


def written_run(
    place: Path,
    data: str,
    *,
    correction: str = "plain",
    features: NDArray[Any] | None = None,
    labels: NDArray[np.int64] | None = None,
    result: dict[str, Any] | None = None,
    kept: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A run that never ran: its files alone, as a training would leave them."""
    place.mkdir(parents=True)
    config = recipe("simclr", data, correction=correction, **changes)
    (place / "config.json").write_text(json.dumps(config.as_json()))
    (place / "result.json").write_text(json.dumps({"seconds": 1.0} | (result or {})))
    if features is not None:
        known: dict[str, Any] = {} if labels is None else {"train_labels": labels}
        np.savez(place / "embeddings.npz", train=features, **known, **(kept or {}))
    return place


def page_of(file: Path, *directories: Path, **options: Any) -> str:
    """The text of the page about these directories, after it was written to the file."""
    write_page(gather(directories), file, **options)
    return file.read_text()


def record_in(page: str) -> Record:
    """What the page's program reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    record: Record = json.loads(found[1])
    return record


def space_in(page: str) -> Record:
    """The samples of the only part of a page."""
    (space,) = record_in(page)["spaces"]
    record: Record = space
    return record


def rows_in(page: str) -> list[str]:
    """The names of the rows of its tables."""
    return re.findall(r'<th scope="row">.*?</span>(.*?)</th>', page)


def charts_in(page: str) -> list[str]:
    """The descriptions of its charts."""
    return re.findall(r'<svg [^>]*aria-label="([^"]*)"', page)


def numbers(text: str, dtype: type[np.generic]) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), dtype)
