"""The page of a report: what it says is what was measured, and in a browser it does what it promises."""

import argparse
import base64
import io
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from pucl.commands import report
from pucl.data import load, load_graphs
from pucl.experiments.config import ROWS
from pucl.experiments.recipes import recipe
from pucl.reports.page import BYTES, as_script, space, thumbnails, write_report
from pucl.reports.page.colours import CLASSES, DARK, LEGIBLE, LIGHT, OTHER, SAME, SEEN, contrast, on_dark, row_colours
from pucl.reports.page.records import gather

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

Record = dict[str, Any]


def written_run(
    place: Path,
    data: str,
    *,
    correction: str = "plain",
    features: NDArray[Any] | None = None,
    labels: NDArray[np.int64] | None = None,
    result: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A run that never ran: its files alone, as a training would leave them."""
    place.mkdir(parents=True)
    config = recipe("simclr", data, correction=correction, **changes)
    (place / "config.json").write_text(json.dumps(config.as_json()))
    (place / "result.json").write_text(json.dumps({"seconds": 1.0} | (result or {})))
    if features is not None:
        known: dict[str, Any] = {} if labels is None else {"train_labels": labels}
        np.savez(place / "embeddings.npz", train=features, **known)
    return place


def record_in(page: str) -> Record:
    """What the page's program reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    record: Record = json.loads(found[1])
    return record


def main_of(page: str) -> str:
    """What a reader with scripts sees of it."""
    return page.split("<main>")[1].split("</noscript>")[1].partition("</main>")[0]


def page_of(tmp_path: Path, *places: Path, **options: Any) -> str:
    return write_report(tmp_path / "report.html", places, **options).read_text()


def numbers(text: str, dtype: type[np.generic]) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), dtype)


# What the page holds.


@pytest.mark.usefixtures("plain_layout")
def test_all_parts_of_a_comparison(comparison: Path, pictures: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, comparison)
    for words in (
        "<h1>simclr on pictures.npz</h1>",
        "pucl compare simclr &lt;pictures&gt;",
        "What each was worth",
        "to plain (95 % interval)",
        'data-chart="dots"',
        'data-chart="curves"',
        "The map of embeddings",
        "Hidden positives of one anchor",
        "To make this page again",
    ):
        assert words in page
    assert "absent" not in main_of(page)
    assert "What could not be read" not in page
    (part,) = record_in(page)["parts"]
    assert [row["name"] for row in part["rows"]] == ["untrained", "plain", "pucl"]
    kept = json.loads((comparison / "comparison.json").read_text())["lines"]
    for row, line in zip(part["rows"], kept, strict=True):
        assert row["scores"]["linear"]["seeds"] == line["by_seed"]["linear"]
        assert row["scores"]["linear"]["mean"] == pytest.approx(line["scores"]["linear"]["mean"])
    loss = part["curves"][0]
    assert loss["key"] == "loss"
    assert [row["row"] for row in loss["rows"]] == [1, 2]  # The untrained encoder has no curve.
    lines = (comparison / "pucl" / "seed-1" / "metrics.jsonl").read_text().splitlines()
    history = [json.loads(line) for line in lines]
    drawn = loss["rows"][1]["seeds"][1]["points"]
    np.testing.assert_allclose(drawn, [[line["epoch"], line["loss"]] for line in history], rtol=1e-5)
    assert [(each["row"], each["seed"]) for each in part["space"]["maps"]] == [(0, 0), (1, 0), (2, 0)]
    assert {each["method"] for each in part["space"]["maps"]} == {"two principal components"}


@pytest.mark.usefixtures("plain_layout")
def test_neighbours_are_those_of_the_embeddings(comparison: Path, tmp_path: Path) -> None:
    made = record_in(page_of(tmp_path, comparison))["parts"][0]["space"]
    with np.load(comparison / "pucl" / "seed-0" / "embeddings.npz") as kept:
        features, labels = kept["train"], kept["train_labels"]
    places = numbers(made["places"], np.uint32)
    assert len(places) == len(features) == made["count"]
    np.testing.assert_array_equal(numbers(made["labels"], np.uint16), labels[places])
    known = made["maps"][2]
    codes = numbers(known["codes"], np.uint8).reshape(len(places), -1)
    values = np.array(known["low"]) + np.array(known["step"]) * codes
    rows = features / np.linalg.norm(features, axis=1, keepdims=True)
    pairs = np.triu_indices(len(places), 1)
    np.testing.assert_allclose((values @ values.T)[pairs], (rows @ rows.T)[places][:, places][pairs], atol=0.02)
    assert known["kept"] > 0.8
    assert np.ptp(numbers(known["plane"], np.uint16)) == 65535
    first = known["suggested"]["suspicious"][0]
    cosines = values @ values[first["anchor"]]
    near = [place for place in np.argsort(-cosines) if place != first["anchor"]][: space.NEAREST]
    anchor_class = labels[places][first["anchor"]]
    assert first["same"] == int((labels[places][near] == anchor_class).sum())
    assert all(below <= above for below, above in pairwise(known["chance"]["table"]))


@pytest.mark.usefixtures("plain_layout")
def test_names_are_escaped(comparison: Path, pictures: Path, tmp_path: Path) -> None:
    with np.load(pictures) as file:
        names = file["classes"].tolist()
    page = page_of(tmp_path, comparison)
    assert "</script><b>" not in page
    assert page.count("</script>") == 2
    assert record_in(page)["parts"][0]["space"]["classes"] == names
    data = tmp_path / "<i>data.npz"
    shutil.copy(pictures, data)
    place = written_run(tmp_path / "<b>run", str(data), result={"linear": 0.5, "knn": 0.5})
    page = page_of(tmp_path, place)
    for name in ("<i>data.npz", "<b>run"):
        assert name not in page
        assert escape(name) in page


def test_json_for_a_script() -> None:
    text = as_script({"a": "</script><!-- & \u2028", "b": [float("nan"), float("inf"), 1.5]})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028", "b": [None, None, 1.5]}


@pytest.mark.usefixtures("plain_layout")
def test_what_is_missing_is_said(tmp_path: Path, pictures: Path) -> None:
    """One run, without labels, metrics or accuracies, whose data are gone."""
    features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    place = written_run(tmp_path / "run", "/nowhere/pictures.npz", features=features)
    page = page_of(tmp_path, place)
    for words in (
        "No accuracy was measured",
        "One run alone is no comparison",
        "There are no curves: nothing was trained, or no metrics were kept.",
    ):
        assert words in page
    assert "/nowhere" not in page
    made = record_in(page)["parts"][0]["space"]
    assert made["labels"] is None
    assert made["thumbnails"] is None
    assert made["note"] == "The images themselves are not shown: they could not be read when the page was made."
    assert "lookalikes" not in made["maps"][0]["suggested"]

    bare = written_run(tmp_path / "bare", str(pictures), result={"linear": 0.5, "knn": 0.25})
    page = page_of(tmp_path, bare)
    assert "There is no map: none of the runs has embeddings here" in page
    assert "plain reaches 50.00 % by the linear classifier." in page
    assert 'data-part="canvas"' not in main_of(page)


@pytest.mark.usefixtures("plain_layout")
def test_damaged_runs_are_named_and_left_out(comparison: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(comparison, copy)
    (copy / "pucl" / "seed-0" / "config.json").write_text('{"framework": "simclr", "data": "x", "wings": 2}')
    (copy / "pucl" / "seed-1" / "metrics.jsonl").write_text('{"epoch": 1, "lo')
    (copy / "plain" / "seed-0" / "result.json").write_text('{"linear": "high", "seconds": 1}')
    (copy / "plain" / "seed-1" / "embeddings.npz").write_bytes(b"PK\x03\x04 and no more")
    shutil.rmtree(copy / "untrained" / "seed-0")
    (tmp_path / "other").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "comparison.json").write_text("[]")
    page = page_of(tmp_path, copy, tmp_path / "other", tmp_path / "broken")
    foot = page.split("What could not be read")[1]
    for place, why in (
        ("copy/pucl/seed-0", "got wings as well"),
        ("copy/pucl/seed-1", "damaged: Unterminated string"),
        ("copy/plain/seed-0", "result.json should hold accuracies"),
        ("copy/plain/seed-1", "embeddings.npz: File is not a zip file"),
        ("copy/untrained/seed-0", "there is no such directory"),
        ("other", "neither a run nor a comparison"),
        ("broken", "should hold a record, got a list"),
    ):
        assert f"<code>{place}</code>: " in foot
        assert why in foot
    (part,) = record_in(page)["parts"]
    assert len(part["rows"]) == 3  # The record of the comparison is whole.
    assert [each["row"] for each in part["space"]["maps"]] == [0]


def test_nothing_readable_is_a_page_too(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    page = page_of(tmp_path, tmp_path / "empty")
    assert "None of what was given could be read" in page
    assert record_in(page)["parts"] == []


def test_an_unfinished_run_shows_its_curves(tmp_path: Path) -> None:
    place = written_run(tmp_path / "run", "digits")
    (place / "result.json").unlink()
    lines = [{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": float("nan")}, {"epoch": 3, "loss": 1.0}]
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = page_of(tmp_path, place)
    assert "is not finished: 3 of 12 epochs are shown" in page
    (panel,) = record_in(page)["parts"][0]["curves"]
    assert panel["rows"][0]["seeds"][0]["points"] == [[1, 2.0], [3, 1.0]]


def test_runs_given_one_by_one_become_rows(tmp_path: Path) -> None:
    for name, correction, accuracy, settings in (
        ("a", "plain", 0.5, {}),
        ("b", "plain", 0.6, {}),
        ("c", "pucl", 0.7, {"alpha": 0.1}),
        ("d", "pucl", 0.9, {"alpha": 0.2}),
    ):
        written_run(
            tmp_path / name,
            "digits",
            correction=correction,
            result={"linear": accuracy, "knn": accuracy},
            settings=settings,
            seed=1 if name == "b" else 0,
        )
    (group,) = gather([tmp_path / name for name in "abcd"]).groups
    lines = {row.line.name: row.line for row in group.rows}
    assert list(lines) == ["plain", "pucl, alpha 0.1", "pucl, alpha 0.2"]
    assert lines["plain"].scores["linear"].mean == pytest.approx(55)
    assert lines["pucl, alpha 0.2"].differences["linear"].mean == pytest.approx(40)  # Seed 0 alone is common.


def test_a_table_of_several_parts(comparison: Path, tmp_path: Path) -> None:
    kept = json.loads((comparison / "comparison.json").read_text())
    lines = [line | {"paper": 50.0 if line["name"] == "pucl" else None} for line in kept["lines"]]
    part = {"base": "plain", "note": "a <note>", "lines": lines, "runs": {}}
    (tmp_path / "table.json").write_text(json.dumps({"command": "pucl table 2", "data": {"ONE": part, "TWO": part}}))
    page = page_of(tmp_path, tmp_path)
    assert page.split("<main>")[0].count('role="tab"') == 2
    assert "a &lt;note&gt;" in page
    assert page.count(">paper<") == 2
    assert [each["name"] for each in record_in(page)["parts"]] == ["ONE", "TWO"]


def test_the_sentence(tmp_path: Path) -> None:
    """What differs by more than its interval is said, and what does not."""
    rows = {
        "plain": (0.5, 0.52, 0.51),
        "pucl": (0.6, 0.62, 0.615),
        "ring": (0.5, 0.53, 0.505),
        "deb": (0.4, 0.41, 0.42),
    }
    for name, values in rows.items():
        for seed, value in enumerate(values):
            written_run(
                tmp_path / f"{name}{seed}", "digits", correction=name, result={"linear": value}, seed=seed, limit=90
            )
    page = page_of(tmp_path, *sorted(path for path in tmp_path.iterdir() if path.is_dir()))
    assert (
        "pucl (+10.17) is above plain by more than the 95 % interval; deb (\N{MINUS SIGN}10.00) is below plain by more "
        "than the 95 % interval; ring cannot be told from plain."
    ) in page


@pytest.mark.slow
@pytest.mark.usefixtures("plain_layout")
@pytest.mark.parametrize("kind", ["noise", "smooth"])
def test_a_page_of_5000_pictures_stays_small(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(0)
    count, rows = 6250, ("plain", "pucl", "oracle")  # A fifth is held back for tests.
    images = random.integers(0, 256, (count, 32, 32, 3)).astype(np.uint8)
    if kind == "smooth":
        coarse = random.integers(0, 256, (count, 4, 4, 3))
        images = (0.8 * coarse.repeat(8, axis=1).repeat(8, axis=2) + 0.2 * images).astype(np.uint8)
    labels = np.arange(count) % 10
    np.savez(tmp_path / "data.npz", images=images, labels=labels)
    train = load(tmp_path / "data.npz").train
    assert len(train) == 5000
    for row in rows:
        features = random.normal(size=(5000, 96)).astype(np.float32)
        written_run(tmp_path / row, str(tmp_path / "data.npz"), correction=row, features=features, labels=train.labels)
    out = write_report(tmp_path / "report.html", [tmp_path / row for row in rows])
    assert 1_500_000 < out.stat().st_size < BYTES
    made = record_in(out.read_text())["parts"][0]["space"]
    assert len(numbers(made["places"], np.uint32)) == 5000
    head, text = made["thumbnails"]["src"].split(",")
    assert head == "data:image/webp;base64"
    with Image.open(io.BytesIO(base64.b64decode(text))) as sheet:
        shown = np.asarray(sheet.convert("RGB")).astype(float)
    side, columns = made["thumbnails"]["side"], made["thumbnails"]["columns"]
    if kind == "smooth":
        assert side == 32
        for number in (0, 1234, 4999):
            y, x = (side * place for place in divmod(number, columns))
            own = train.pixels[number].transpose(1, 2, 0).astype(float)
            assert np.abs(shown[y : y + side, x : x + side] - own).mean() < 25


@pytest.mark.usefixtures("plain_layout")
def test_graphs_are_drawn(graph_comparison: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thumbnails, "MOST_NODES", 20)
    made = record_in(page_of(tmp_path, graph_comparison))["parts"][0]["space"]
    drawn = made["thumbnails"]
    nodes, sizes = numbers(drawn["nodes"], np.uint8), numbers(drawn["sizes"], np.uint32)
    assert nodes.max() == 20 < sizes.max()
    assert (nodes <= np.minimum(sizes, 20)).all()
    assert (nodes == np.minimum(sizes, 20)).mean() > 0.9  # Some are of several pieces, of which one is drawn.
    edges, ends = numbers(drawn["edges"], np.uint16), numbers(drawn["ends"], np.uint8).reshape(-1, 2)
    assert edges.sum() == len(ends)
    graph_of = np.repeat(np.arange(len(nodes)), edges)
    assert (ends < nodes[graph_of][:, None]).all()
    assert len(numbers(drawn["places"], np.uint8)) == 2 * int(nodes.sum())
    assert made["unit"] == "graphs"


def test_a_drawing_has_its_edges_short(tmp_path: Path) -> None:
    graphs = load_graphs("shapes")
    for graph in range(0, len(graphs), 40):
        edges = graphs.edges[:, graphs.edge_start[graph] : graphs.edge_start[graph + 1]].astype(np.int64)
        size = int(np.diff(graphs.node_start)[graph])
        places = thumbnails.spring(edges, size)
        assert np.isfinite(places).all()
        lengths = np.linalg.norm(places[edges[0]] - places[edges[1]], axis=1)
        distances = np.linalg.norm(places[:, None] - places[None], axis=2)
        assert lengths.mean() < 0.7 * distances[np.triu_indices(size, 1)].mean()
        np.testing.assert_array_equal(places, thumbnails.spring(edges, size))


def test_graphs_without_edges() -> None:
    assert np.isfinite(thumbnails.spring(np.zeros((2, 0), np.int64), 5)).all()
    assert thumbnails.spring(np.zeros((2, 0), np.int64), 1).tolist() == [[0, 0]]


@pytest.mark.slow
def test_umap_is_used_where_it_is() -> None:
    pytest.importorskip("umap")
    random = np.random.default_rng(0)
    centres = random.normal(size=(3, 12))
    kind = np.arange(120) % 3
    places, method = space.layout(centres[kind] + 0.1 * random.normal(size=(120, 12)))
    assert method == "UMAP"
    middles = np.stack([places[kind == each].mean(axis=0) for each in range(3)])
    near = np.linalg.norm(places[:, None] - middles[None], axis=2).argmin(axis=1)
    assert (near == kind).mean() > 0.95


def test_the_mixture_finds_hidden_positives(monkeypatch: pytest.MonkeyPatch) -> None:
    """By pucl's own estimate, and by the one that stands in for it."""
    random = np.random.default_rng(0)
    kind = np.arange(400) % 5
    features = np.eye(5, 32)[kind] + 0.12 * random.normal(size=(400, 32))
    values = space.unit(features)
    cosines = np.array([0.95, 0.6, 0.0])
    for hidden in (False, True):
        if hidden:
            monkeypatch.setitem(sys.modules, "pucl.priors", None)
        found = space.suspicion(values)
        assert found is not None
        assert found.share == pytest.approx(0.2, abs=0.05)
        high, middle, low = found(cosines)
        assert high > 0.95
        assert high >= middle >= low
        assert low < 0.05


def test_nothing_to_suspect() -> None:
    assert space.suspicion(np.ones((40, 3), np.float32)) is None


def test_colours_can_be_told_from_the_ground() -> None:
    for theme in (LIGHT, DARK):
        for text in ("ink", "muted"):
            assert min(contrast(theme[text], theme[ground]) for ground in ("paper", "panel")) >= LEGIBLE
    for mark in (SAME, OTHER):
        assert min(contrast(mark, LIGHT[ground]) for ground in ("paper", "panel")) >= LEGIBLE
        assert contrast(on_dark(mark), DARK["panel"]) >= LEGIBLE
    for light, dark in row_colours([*ROWS, "yours"]):
        assert contrast(light, LIGHT["paper"]) >= SEEN
        assert contrast(dark, DARK["paper"]) >= LEGIBLE
    assert len(set(row_colours(ROWS))) == len(ROWS)
    assert len(set(row_colours(["pucl"] * 15))) == 15
    assert len({on_dark(colour) for colour in CLASSES}) == len(CLASSES)


@pytest.mark.usefixtures("plain_layout")
def test_the_command(
    comparison: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: str) -> int:
        parser = argparse.ArgumentParser()
        report.add_arguments(parser)
        return report.run(parser.parse_args(words))

    out = tmp_path / "new" / "page.html"
    assert run(str(comparison), "--out", str(out), "--points", "20") == 0
    assert f"page: {out}" in capsys.readouterr().out
    page = out.read_text()
    assert "--out page.html --points 20 --force" in page
    made = record_in(page)["parts"][0]["space"]
    assert len(numbers(made["places"], np.uint32)) == 20
    assert np.bincount(numbers(made["labels"], np.uint16)).tolist() == [10, 10]
    with pytest.raises(ValueError, match="is there already: choose another name, or give --force"):
        run(str(comparison), "--out", str(out))
    assert run(str(comparison), "--out", str(out), "--points", "20", "--force") == 0
    assert out.read_text() == page  # The same runs make the same page.
    with pytest.raises(ValueError, match="there is no directory"):
        run(str(tmp_path / "nowhere"), "--out", str(out), "--force")
    with pytest.raises(ValueError, match="expected 10 to 20000, got 5"):
        run(str(comparison), "--out", str(out), "--points", "5", "--force")
    (tmp_path / "empty").mkdir()
    assert run(str(tmp_path / "empty"), "--out", str(tmp_path / "x.html")) == 1
    assert "left out" in capsys.readouterr().err


# What the page does.


@pytest.fixture(scope="module")
def pages(comparison: Path, graph_comparison: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of pictures and one of pictures and graphs."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(space, "FEWEST_FOR_UMAP", 10**9)
        write_report(folder / "pictures.html", [comparison])
        write_report(folder / "both.html", [graph_comparison, comparison])
    return folder


@pytest.fixture
def shown(browser: "Chrome", pages: Path) -> Iterator[Callable[..., "Chrome"]]:
    """Opens a page at a width, in a kind of light; afterwards nothing may have gone wrong in it."""

    def show(name: str = "pictures", *, width: int = 1300, media: str = "", scheme: str = "light") -> "Chrome":
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get((pages / f"{name}.html").as_uri())
        until(lambda: browser.execute_script("return !!document.querySelector('canvas[data-drawn]')"))
        return browser

    complaints(browser)  # Of other pages.
    yield show
    assert complaints(browser) == []


def complaints(driver: "Chrome") -> list[Any]:
    """What the browser has to say against a page since it was last asked."""
    found: list[Any] = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return found


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def one(driver: "Chrome", query: str) -> "WebElement":
    return driver.find_element("css selector", query)


def every(driver: "Chrome", query: str) -> "list[WebElement]":
    return driver.find_elements("css selector", query)


def colours_of(png: bytes) -> int:
    """How many colours a picture has, as the eye tells them."""
    with Image.open(io.BytesIO(png)) as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3) // 32
    return len(np.unique(pixels, axis=0))


def picture_of(driver: "Chrome", element: "WebElement") -> bytes:
    """What an element looks like, however tall it is."""
    clip = driver.execute_script(
        "const r = arguments[0].getBoundingClientRect();"
        "return {x: r.left + scrollX, y: r.top + scrollY, width: r.width, height: r.height, scale: 1}",
        element,
    )
    options = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"])


SOMEWHERE = """
const canvas = document.querySelector('[data-layer="points"]'), brush = canvas.getContext('2d');
const data = brush.getImageData(0, 0, canvas.width, canvas.height).data, ratio = canvas.width / canvas.clientWidth;
const wanted = arguments[0].map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
let count = 0, places = [];
for (let at = 0; at < data.length; at += 4) {
  const near = (colour) => colour.every((part, channel) => Math.abs(part - data[at + channel]) < 12);
  if (data[at + 3] > 150 && wanted.some(near)) {
    count++;
    if (count % 97 === 1) places.push([(at / 4) % canvas.width / ratio, Math.floor(at / 4 / canvas.width) / ratio]);
  }
}
return [count, places];
"""
"""Pixels of the map with one of these colours: how many, and where some are."""


def somewhere(driver: "Chrome", theme: str = "light") -> tuple[int, list[list[float]]]:
    colours = driver.execute_script(
        "return JSON.parse(document.getElementById('data').textContent).theme[arguments[0]].classes", theme
    )
    count, places = driver.execute_script(SOMEWHERE, colours[:2])
    return count, places


def move_to(driver: "Chrome", place: list[float], *, click: bool = False) -> None:
    canvas = one(driver, '[data-layer="points"]')
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
    frame = driver.execute_script("const r = arguments[0].getBoundingClientRect(); return [r.left, r.top]", canvas)
    at = {"x": frame[0] + place[0], "y": frame[1] + place[1]}
    events = ["mouseMoved", "mousePressed", "mouseReleased"] if click else ["mouseMoved"]
    for event in events:
        button = {} if event == "mouseMoved" else {"button": "left", "clickCount": 1}
        driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": event} | at | button)


def similarities(driver: "Chrome") -> list[float]:
    return [float(item.get_attribute("data-similarity") or "nan") for item in every(driver, ".near button")]


@pytest.mark.slow
def test_points_are_drawn_and_hover_shows_a_picture(shown: Callable[..., "Chrome"]) -> None:
    driver = shown()
    count, places = somewhere(driver)
    assert count > 500
    tip = one(driver, ".canvas .tip")
    assert not tip.is_displayed()
    move_to(driver, places[len(places) // 2])
    until(tip.is_displayed)
    assert re.search(r"no\. \d+\n(similarity 0\.\d+|the anchor)", tip.text)
    picture = driver.execute_script(
        "const c = arguments[0].querySelector('canvas'); return c.toDataURL().split(',')[1]", tip
    )
    assert colours_of(base64.b64decode(picture)) > 20


@pytest.mark.slow
def test_an_anchor_fills_the_inspector(shown: Callable[..., "Chrome"]) -> None:
    driver = shown()
    titles = []

    def look() -> None:
        found = similarities(driver)
        assert len(found) == space.NEAREST
        assert found == sorted(found, reverse=True)
        assert found[0] > found[-1]
        title = one(driver, ".anchor h3").text
        assert title.startswith("Anchor: ")
        titles.append(title)
        marks = [mark.text for mark in every(driver, ".near .mark")]
        assert len(marks) == space.NEAREST
        same = sum(mark == "\N{CHECK MARK} same" for mark in marks)
        assert f"{same} of these 24 truly are of its class" in one(driver, ".anchor").text

    look()  # Without a click.
    suggestion = every(driver, ".strip button")[5]
    suggestion.click()
    assert suggestion.get_attribute("aria-pressed") == "true"
    look()
    _, places = somewhere(driver)
    before = one(driver, ".anchor h3").text
    for place in places[:: max(1, len(places) // 8)]:
        move_to(driver, place, click=True)
        if one(driver, ".anchor h3").text != before:
            break
    look()
    every(driver, ".near button")[3].click()
    look()
    number = one(driver, '[data-choice="anchor"]')
    driver.execute_script("arguments[0].value = 7; arguments[0].dispatchEvent(new Event('change'))", number)
    look()
    assert titles[-1].endswith("no. 7")
    assert len(set(titles)) >= 4

    def choose(name: str, value: str) -> None:
        driver.execute_script(
            "const s = document.querySelector(`[data-choice='${arguments[0]}']`); s.value = arguments[1];"
            "s.dispatchEvent(new Event('change'))",
            name,
            value,
        )

    first = similarities(driver)
    choose("order", "least")
    assert similarities(driver) == first[::-1]
    choose("order", "class")
    marks = [mark.text[0] for mark in every(driver, ".near .mark")]
    assert marks == sorted(marks, key="\N{CHECK MARK}\N{BALLOT X}".index)
    choose("order", "most")
    choose("run", "0")
    assert "untrained, seed 0" in one(driver, '[data-text="map"]').text
    look()
    choose("kind", "lookalikes")
    assert len(every(driver, ".strip button")) > 3


@pytest.mark.slow
def test_the_page_agrees_with_python(shown: Callable[..., "Chrome"], pages: Path) -> None:
    """Similarities and probabilities that the page computes are those of the functions here."""
    driver = shown()
    known = record_in((pages / "pictures.html").read_text())["parts"][0]["space"]["maps"][2]
    first = known["suggested"]["suspicious"][0]
    codes = numbers(known["codes"], np.uint8).reshape(-1, len(known["low"]))
    values = np.array(known["low"]) + np.array(known["step"]) * codes
    cosines = np.sort(np.delete(values @ values[first["anchor"]], first["anchor"]))[::-1][: space.NEAREST]
    np.testing.assert_allclose(similarities(driver), cosines, atol=1e-5)
    assert one(driver, ".anchor li").text.startswith(f"{first['expected']:.1f} of these 24 are expected")


@pytest.mark.slow
def test_the_table_sorts(shown: Callable[..., "Chrome"]) -> None:
    driver = shown()

    def names() -> list[str]:
        return [cell.text for cell in every(driver, "#worth-0 tbody th")]

    def values(column: int) -> list[float]:
        cells = every(driver, f"#worth-0 tbody td:nth-child({column})")
        return [float(cell.get_attribute("data-value") or "nan") for cell in cells]

    before = names()
    heads = every(driver, "#worth-0 thead th")
    for column, way in ((1, "descending"), (1, "ascending"), (1, "none")):
        heads[column].find_element("css selector", "button").click()
        assert heads[column].get_attribute("aria-sort") == way
        if way != "none":
            assert values(column + 1) == sorted(values(column + 1), reverse=way == "descending")
    assert names() == before
    heads[0].find_element("css selector", "button").click()
    assert names() == sorted(before)


@pytest.mark.slow
def test_the_legend_switches_rows(shown: Callable[..., "Chrome"]) -> None:
    driver = shown()
    until(lambda: every(driver, ".curve path.mean"))
    panels = len(every(driver, ".curve"))
    assert panels >= 5
    assert len(every(driver, ".curve path.mean")) == 2 * panels
    thin = len(every(driver, ".curve path.seed"))
    assert thin == 4 * panels
    plain = every(driver, "#curves-0 .legend button")[0]
    assert plain.text == "plain"
    plain.click()
    assert plain.get_attribute("aria-pressed") == "false"
    assert {path.get_attribute("data-row") for path in every(driver, ".curve path.mean")} == {"2"}
    plain.send_keys(" ")  # By the keyboard too.
    assert len(every(driver, ".curve path.mean")) == 2 * panels


@pytest.mark.slow
def test_curves_tell_their_values(shown: Callable[..., "Chrome"], comparison: Path) -> None:
    driver = shown()
    until(lambda: every(driver, ".curve svg[tabindex]"))
    chart = one(driver, ".curve svg[tabindex]")
    chart.send_keys("\ue012")  # Arrow to the left: the last epoch.
    tip = one(driver, ".curve .tip")
    until(tip.is_displayed)
    losses = [
        json.loads((comparison / "plain" / f"seed-{seed}" / "metrics.jsonl").read_text().splitlines()[-1])["loss"]
        for seed in (0, 1)
    ]
    assert "epoch 3" in tip.text
    assert f"{np.mean(losses):.3f}" in tip.text


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(shown: Callable[..., "Chrome"], scheme: str) -> None:
    driver = shown(scheme=scheme)
    theme = {"light": LIGHT, "dark": DARK}[scheme]
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb({}, {}, {})".format(*(int(theme["paper"][at : at + 2], 16) for at in (1, 3, 5)))
    assert somewhere(driver, scheme)[0] > 500
    for section in every(driver, "section"):
        assert colours_of(picture_of(driver, section)) > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pictures", "both"])
def test_a_phone(shown: Callable[..., "Chrome"], name: str) -> None:
    driver = shown(name, width=390)
    until(lambda: every(driver, ".curve svg"))
    wide, room = driver.execute_script("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]")
    assert wide == room <= 390
    box = one(driver, ".scroll")
    assert box.size["width"] <= 390
    assert driver.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", box)
    for control in every(driver, "select, .zoom button, .legend button, .sort, .near button, .strip button"):
        if control.is_displayed():
            assert control.size["height"] >= 40
    outside = driver.execute_script(
        "return [...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, svg') &&"
        " e.getBoundingClientRect().right > 391).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert outside == []


@pytest.mark.slow
def test_paper(shown: Callable[..., "Chrome"]) -> None:
    """In the dark too a page prints on white, without what can be pressed, and with what was chosen."""
    driver = shown(width=760, media="print", scheme="dark")
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for query in ("select", ".zoom", ".jump", ".strip"):
        assert not any(element.is_displayed() for element in every(driver, query))
    assert one(driver, ".anchor").is_displayed()
    assert len(every(driver, ".near li")) == space.NEAREST
    assert somewhere(driver, "light")[0] > 500
    printed = driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert base64.b64decode(printed).startswith(b"%PDF")


@pytest.mark.slow
def test_the_keyboard_reaches_everything(shown: Callable[..., "Chrome"]) -> None:
    driver = shown()
    canvas = one(driver, '[data-layer="points"]')
    before = one(driver, ".anchor h3").text
    canvas.send_keys("\ue014\ue015\ue014")  # Right, down, right.
    assert one(driver, ".canvas .tip").is_displayed()
    canvas.send_keys("\ue007")
    assert one(driver, ".anchor h3").text != before
    reached = driver.execute_script(
        "return [...document.querySelectorAll('button, select, input, a, [tabindex]')].every((e) => e.tabIndex >= 0)"
    )
    assert reached
    unnamed = driver.execute_script(
        "return [...document.querySelectorAll('main svg[role], canvas[role], button')].filter((e) =>"
        " !(e.getAttribute('aria-label') || e.textContent.trim())).length"
    )
    assert unnamed == 0
    outline = driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.slow
def test_zoom(shown: Callable[..., "Chrome"]) -> None:
    driver = shown()
    picture = "return document.querySelector('[data-layer=points]').toDataURL()"
    before = driver.execute_script(picture)
    one(driver, '[data-zoom="in"]').click()
    assert driver.execute_script(picture) != before
    one(driver, '[data-zoom="all"]').click()
    assert driver.execute_script(picture) == before


@pytest.mark.slow
def test_graphs_and_tabs(shown: Callable[..., "Chrome"]) -> None:
    driver = shown("both")
    first, second = every(driver, '[role="tab"]')
    assert first.text == "FEW"
    drawn = driver.execute_script(
        "return [...document.querySelectorAll('#part-0 .near canvas')].map((c) => c.toDataURL().split(',')[1])"
    )
    assert len(set(drawn)) > 12
    for picture in drawn:
        with Image.open(io.BytesIO(base64.b64decode(picture))) as graph:
            assert (np.asarray(graph)[..., 3] > 0).mean() > 0.02
    assert len(every(driver, "#part-0 .near button")) == space.NEAREST
    first.send_keys("\ue014")
    until(lambda: every(driver, "#part-1 canvas[data-drawn]"))
    assert second.get_attribute("aria-selected") == "true"
    assert not one(driver, "#part-0").is_displayed()
    assert one(driver, "#part-1 .anchor").is_displayed()


@pytest.mark.slow
def test_names_of_classes_are_text(shown: Callable[..., "Chrome"], pictures: Path) -> None:
    driver = shown()
    with np.load(pictures) as file:
        names = file["classes"].tolist()
    assert [button.text for button in every(driver, '[data-part="classes"] button')] == names


@pytest.mark.slow
def test_without_labels_data_and_history(browser: "Chrome", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "FEWEST_FOR_UMAP", 10**9)
    features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    place = written_run(tmp_path / "run", "/nowhere/pictures.npz", features=features)
    complaints(browser)
    browser.get(write_report(tmp_path / "report.html", [place]).as_uri())
    until(lambda: every(browser, "canvas[data-drawn]"))
    assert len(similarities(browser)) == space.NEAREST
    assert every(browser, ".near .mark") == []
    assert "The classes are not known." in one(browser, '[data-text="map"]').text
    assert complaints(browser) == []
