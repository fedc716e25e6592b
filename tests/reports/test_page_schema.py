"""Python and the page's program agree on the data between them, field by field."""

import dataclasses
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from browsing import choose, complaints, every, one, unfold, until
from page_records import page_of, record_in, written_run
from pucl.corrections.clusters import PARTITIONS
from pucl.records import conform
from pucl.reports.page import schema
from small_runs import make_pictures

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

WATCH = """
const parse = JSON.parse, known = new WeakMap(), read = new Set(), absent = new Set();
window.fields = () => [[...read], [...absent]];
function watched(value, path) {
  if (value === null || typeof value !== "object") return value;
  if (!known.has(value)) known.set(value, new Proxy(value, { get(target, name) {
    if (typeof name === "symbol" || name === "toJSON") return target[name];
    if (Array.isArray(target)) return /^[0-9]+$/.test(name) ? watched(target[name], path + "[]") : target[name];
    (name in target ? read : absent).add(`${path}.${name}`);
    return watched(target[name], `${path}.${name}`);
  } }));
  return known.get(value);
}
JSON.parse = (text) => watched(parse(text), "page");
"""
"""Reports which fields of the data a program reads, and which of them are not there."""


def fields_of(kind: Any, path: str) -> Iterator[str]:
    """The fields of a class and of those within it, as paths."""
    if dataclasses.is_dataclass(kind):
        for name, hint in get_type_hints(kind).items():
            yield f"{path}.{name}"
            yield from fields_of(hint, f"{path}.{name}")
    elif get_origin(kind) is tuple:
        yield from fields_of(get_args(kind)[0], f"{path}[]")
    elif get_origin(kind) in (Union, types.UnionType):
        for each in get_args(kind):
            yield from fields_of(each, path)


@pytest.fixture(scope="module")
def with_r(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a run with r, on pictures that are files."""
    from PIL import Image  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("files")
    images, labels = make_pictures(50, 16)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        file = folder / "data" / f"kind-{label}" / f"{number:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    groups = np.random.default_rng(1).integers(2, size=(40, PARTITIONS))
    run = written_run(
        folder / "run",
        str(folder / "data"),
        correction="auto",
        features=features,
        result={"calibration.error": 0.05},
        kept={"correction.groups": groups, "correction.opened": np.array(True)},
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pucl.reports.page.maps.FEWEST_FOR_UMAP", 10**9)
        page_of(folder / "report.html", run, root=folder / "root")
    return folder / "report.html"


@pytest.mark.slow
def test_the_program_reads_the_fields_of_the_schema_and_no_others(browser: "Chrome", pages: Path, with_r: Path) -> None:
    complaints(browser)
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    read: set[str] = set()
    try:
        for page in (pages / "pictures.html", pages / "both.html", pages / "texts.html", with_r):
            for scheme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
                browser.get("about:blank")
                browser.get(page.as_uri())
                until(lambda: every(browser, ".near a"))
                unfold(browser, "map-0")
                until(lambda: every(browser, "canvas[data-drawn]"))
                choose(browser, "run", one(browser, '[data-choice="run"] option').get_attribute("value"))
                one(browser, '[data-download="json"]').click()
                found, absent = browser.execute_script("return fields()")
                assert absent == []
                read |= set(found)
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]})
    assert read == set(fields_of(schema.Page, "page"))
    assert complaints(browser) == []


@pytest.mark.slow
def test_the_data_of_a_page_are_of_the_schema(pages: Path, with_r: Path) -> None:
    for page in (pages / "pictures.html", pages / "both.html", pages / "texts.html", with_r):
        made = conform(record_in(page.read_text()), schema.Page, "the page")
        assert isinstance(made, schema.Page)
        assert all(space is not None for space in made.spaces)
