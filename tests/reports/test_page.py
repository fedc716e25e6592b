"""The page of a report: what it says is what was measured."""

import base64
import io
import json
import re
import shutil
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from page_records import charts_in, numbers, page_of, rows_in, space_in, written_run
from pucl.cli import main
from pucl.config import row_names
from pucl.diagnosis.layout2d import nearest
from pucl.graphs import thumbnails
from pucl.graphs.registry import load_graphs
from pucl.graphs.thumbnails import spring
from pucl.images.registry import load
from pucl.reports.page import BYTES, maps
from pucl.reports.page.maps import plane_of
from pucl.reports.page.records import gather
from pucl.reports.palette import CLASSES, DARK, LEGIBLE, LIGHT, VISIBLE, contrast, on_dark, row_colours
from pucl.runs.collection import ENVIRONMENTS, METRICS, RUNS


def main_of(page: str) -> str:
    """What a reader with scripts sees of it."""
    return page.split("<main>")[1].split("</noscript>")[1].partition("</main>")[0]


def metrics_of(row: Path) -> list[str]:
    return [path.read_text() for path in sorted(row.glob("*/metrics.jsonl"))]


@pytest.fixture(scope="module")
def page(comparison: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the comparison."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maps, "FEWEST_FOR_UMAP", 10**9)
        return page_of(tmp_path_factory.mktemp("page") / "report.html", comparison)


@pytest.mark.slow
def test_all_parts_of_a_comparison(page: str, comparison: Path) -> None:
    for words in (
        "<h1>simclr on pictures.npz</h1>",
        "pucl compare simclr &lt;pictures&gt;",
        "to plain (95 % interval)",
        "What false negatives cost, and how much came back",
        "The costliest pairs",
        "One anchor, and what is pushed away from it",
        "Map of the embeddings",
        "Metrics during training",
        "How it was run",
        "Files, and how to make this page again",
    ):
        assert words in page
    assert "absent" not in main_of(page)
    assert "What could not be read" not in page
    assert rows_in(page) == ["untrained", "plain", "pucl"]
    kept = json.loads((comparison / "comparison.json").read_text())["lines"]
    means = ", ".join(f"{line['name']} {line['scores']['linear']['mean']:.2f}" for line in kept)
    assert f'aria-label="Linear classifier, %: {means}"' in page
    losses = {
        name: np.mean([json.loads(text.splitlines()[-1])["loss"] for text in metrics_of(comparison / name)])
        for name in ("plain", "pucl")
    }
    ends = ", ".join(f"{name} {loss:.3g}" for name, loss in losses.items())  # The untrained encoder has no curve.
    assert f'aria-label="Loss over 3 epochs; at the end {ends}"' in page
    assert re.findall(r'data-switch="(\d)"', page) == ["1", "2"]
    space = space_in(page)
    assert [(each["name"], each["seed"]) for each in space["maps"]] == [("untrained", 0), ("plain", 0), ("pucl", 0)]
    assert (space["base"], space["first"]) == (1, 2)
    assert all("laid out by two principal components" in each["about"] for each in space["maps"])


def test_neighbours_are_those_of_the_embeddings(page: str, comparison: Path) -> None:
    made = space_in(page)
    with np.load(comparison / "pucl" / "seed-0" / "embeddings.npz") as kept:
        features, labels = kept["train"], kept["train_labels"]
    places = numbers(made["indices"], np.uint32)
    assert len(places) == len(features) == made["count"]
    np.testing.assert_array_equal(numbers(made["labels"], np.uint16), labels[places])
    known = made["maps"][2]
    codes = numbers(known["codes"], np.uint8).reshape(len(places), -1)
    values = np.array(known["low"]) + np.array(known["step"]) * codes
    rows = features / np.linalg.norm(features, axis=1, keepdims=True)
    pairs = np.triu_indices(len(places), 1)
    np.testing.assert_allclose((values @ values.T)[pairs], (rows @ rows.T)[places][:, places][pairs], atol=0.02)
    assert np.ptp(numbers(known["plane"], np.uint16)) == 65535
    kept = re.search(r"on average ([\d.]+) of the 12 truly nearest images", known["fine"])
    assert kept is not None
    near, true = (nearest(each, 12)[0] for each in (values, rows[places]))
    shared = np.mean([len(np.intersect1d(one, two)) for one, two in zip(near, true, strict=True)])
    assert float(kept[1]) == pytest.approx(shared, abs=0.051)
    assert shared > 9


def test_names_are_escaped(page: str, pictures: Path, tmp_path: Path) -> None:
    with np.load(pictures) as file:
        names = file["classes"].tolist()
    assert "</script><b>" not in page
    assert page.count("</script>") == 2
    assert space_in(page)["classes"] == names
    data = tmp_path / "<i>data.npz"
    shutil.copy(pictures, data)
    place = written_run(tmp_path / "<b>run", str(data), result={"linear": 0.5, "knn": 0.5})
    page = page_of(tmp_path / "report.html", place)
    for name in ("<i>data.npz", "<b>run"):
        assert name not in page
        assert escape(name) in page


@pytest.mark.usefixtures("plain_layout")
def test_what_is_missing_is_said(tmp_path: Path, pictures: Path) -> None:
    """One run, without labels, metrics or accuracies, whose data are gone."""
    features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    place = written_run(tmp_path / "run", "/nowhere/pictures.npz", features=features)
    page = page_of(tmp_path / "report.html", place)
    for words in (
        "No score was measured",
        "There is no chart of scores: none was measured.",
        "There are no curves: nothing was trained, or no metrics were kept.",
    ):
        assert words in page
    assert "/nowhere" not in page
    made = space_in(page)
    assert made["labels"] is None
    assert made["thumbnails"] is None
    assert made["names"] is None
    assert "The images are not shown: the data could not be read." in made["maps"][0]["about"]
    assert made["maps"][0]["own"] is None

    bare = written_run(tmp_path / "bare", str(pictures), result={"linear": 0.5, "knn": 0.25})
    page = page_of(tmp_path / "report.html", bare)
    assert "There are no samples to show: no run has embeddings here" in page
    links = re.findall(r'href="#([\w-]+)"', page)
    assert "pairs-0" in links
    assert [link for link in links if f'id="{link}"' not in page] == []  # None leads to a section that is not there.
    assert "plain reaches 50.00 % by the linear classifier." in page
    assert "one run has nothing to be compared with" in page
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
    (copy / "runs.jsonl").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "comparison.json").write_text("[]")
    page = page_of(tmp_path / "report.html", copy, tmp_path / "other", tmp_path / "broken")
    foot = page.split("What could not be read")[1]
    for place, why in (
        ("copy/pucl/seed-0", "the configuration has known fields only: got &#x27;wings&#x27;"),
        ("copy/pucl/seed-1", "metrics.jsonl is damaged, or another program wrote it: line 1: expected JSON"),
        (
            "copy/plain/seed-0",
            "result.json is damaged, or another program wrote it: &#x27;linear&#x27; should be a number",
        ),
        (
            "copy/plain/seed-1",
            "embeddings.npz is not a .npz file of plain arrays, or is damaged: File is not a zip file",
        ),
        ("copy/untrained/seed-0", "there is no such directory"),
        ("other", "neither a run nor a comparison"),
        (
            "broken",
            "comparison.json is damaged, or another program wrote it: the record should be an object, got a list",
        ),
    ):
        assert f"<code>{place}</code>: " in foot
        assert why in foot
    assert len(rows_in(page)) == 3  # The record of the comparison is whole.
    assert [each["name"] for each in space_in(page)["maps"]] == ["untrained"]


@pytest.mark.slow
def test_a_page_from_a_collection_alone(page: str, comparison: Path, tmp_path: Path) -> None:
    """Without directories of runs there are the same numbers and curves, and no map."""
    (tmp_path / "alone").mkdir()
    for name in (RUNS, METRICS, ENVIRONMENTS, "comparison.json"):
        shutil.copy(comparison / name, tmp_path / "alone" / name)
    alone = page_of(tmp_path / "report.html", tmp_path / "alone")
    assert rows_in(alone) == rows_in(page)
    assert charts_in(alone) == charts_in(page)
    assert any(chart.startswith("Nearest neighbours over 3 epochs") for chart in charts_in(alone))
    assert "There are no samples to show: no run has embeddings here" in alone
    assert "What could not be read" not in alone


def test_an_unfinished_run_shows_its_curves(tmp_path: Path) -> None:
    place = written_run(tmp_path / "run", "digits")
    (place / "result.json").unlink()
    lines = [{"epoch": n, "step": n, "loss": loss} for n, loss in ((1, 2.0), (2, float("nan")), (3, 1.0))]
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = page_of(tmp_path / "report.html", place)
    assert "No run is finished, so there is no score yet." in page
    assert "is not finished: 3 of 12 epochs shown" in page
    assert charts_in(page) == ["Loss over 3 epochs; at the end plain 1"]


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
    summaries = {row.summary.name: row.summary for row in group.rows}
    assert list(summaries) == ["plain", "pucl, alpha 0.1", "pucl, alpha 0.2"]
    assert summaries["plain"].scores["linear"].mean == pytest.approx(55)
    assert summaries["pucl, alpha 0.2"].differences["linear"].mean == pytest.approx(40)  # Seed 0 alone is common.


def test_rows_of_another_length_are_not_compared(tmp_path: Path) -> None:
    for name, correction, epochs in (("a", "plain", 1), ("b", "ring", 2), ("c", "ring", 1)):
        result = {"linear": 0.5, "knn": 0.5}
        written_run(tmp_path / name, "digits", correction=correction, result=result, epochs=epochs)
    (group,) = gather([tmp_path / name for name in "abc"]).groups
    compared = {row.summary.name: bool(row.summary.differences) for row in group.rows}
    assert compared == {"plain, epochs 1": False, "ring, epochs 2": False, "ring, epochs 1": True}


@pytest.mark.usefixtures("plain_layout")
@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({"test": np.zeros((9, 4))}, "embeddings.npz: a map is made of the features of training samples"),
        ({"train": np.zeros((9, 4), "m8[s]")}, "embeddings.npz: train is not a plain array"),
        ({"train": np.full((9, 4), "x")}, "embeddings.npz: a map is made of the features of training samples"),
        ({"train": np.ones((9, 4)), "train_labels": np.full(9, "x")}, "embeddings.npz: labels are one class"),
    ],
)
def test_embeddings_that_are_none(tmp_path: Path, arrays: dict[str, Any], why: str) -> None:
    run = written_run(tmp_path / "run", "digits")
    np.savez(run / "embeddings.npz", **arrays)
    foot = page_of(tmp_path / "report.html", run).split("What could not be read")[1]
    assert f"<code>run</code>: {why}" in foot


def test_a_table_of_several_parts(comparison: Path, tmp_path: Path) -> None:
    kept = json.loads((comparison / "comparison.json").read_text())
    lines = [line | {"paper": 50.0 if line["name"] == "pucl" else None} for line in kept["lines"]]
    part = {"base": "plain", "note": "a <note>", "lines": lines, "runs": {}}
    (tmp_path / "table.json").write_text(json.dumps({"command": "pucl table 2", "data": {"ONE": part, "TWO": part}}))
    page = page_of(tmp_path / "report.html", tmp_path)
    assert page.split("<main>")[0].count('role="tab"') == 2
    assert "a &lt;note&gt;" in page
    assert page.count(">paper<") == 2
    assert re.findall("<h2 class='name'>(.*?)</h2>", page) == ["ONE", "TWO"]


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
    page = page_of(tmp_path / "report.html", *(tmp_path / row for row in rows))
    assert 1_500_000 < len(page.encode()) < BYTES
    made = space_in(page)
    assert len(numbers(made["indices"], np.uint32)) == 5000
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


@pytest.mark.slow
@pytest.mark.usefixtures("plain_layout")
def test_graphs_are_drawn(graph_comparison: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thumbnails, "MOST_NODES", 20)
    made = space_in(page_of(tmp_path / "report.html", graph_comparison))
    drawn = made["thumbnails"]
    nodes, sizes = numbers(drawn["nodes"], np.uint8), numbers(drawn["sizes"], np.uint32)
    assert nodes.max() == 20 < sizes.max()
    assert (nodes <= np.minimum(sizes, 20)).all()
    assert (nodes == np.minimum(sizes, 20)).mean() > 0.9  # Some are of several pieces, of which one is drawn.
    edges, ends = numbers(drawn["edges"], np.uint16), numbers(drawn["ends"], np.uint8).reshape(-1, 2)
    assert edges.sum() == len(ends)
    graph_of = np.repeat(np.arange(len(nodes)), edges)
    assert (ends < nodes[graph_of][:, None]).all()
    assert len(numbers(drawn["positions"], np.uint8)) == 2 * int(nodes.sum())
    assert made["units"] == "graphs"


def test_a_drawing_has_its_edges_short(tmp_path: Path) -> None:
    graphs = load_graphs("shapes")
    for graph in range(0, len(graphs), 40):
        edges = graphs.edges[:, graphs.edge_start[graph] : graphs.edge_start[graph + 1]].astype(np.int64)
        size = int(np.diff(graphs.node_start)[graph])
        places = spring(edges, size)
        assert np.isfinite(places).all()
        lengths = np.linalg.norm(places[edges[0]] - places[edges[1]], axis=1)
        distances = np.linalg.norm(places[:, None] - places[None], axis=2)
        assert lengths.mean() < 0.7 * distances[np.triu_indices(size, 1)].mean()
        np.testing.assert_array_equal(places, spring(edges, size))


def test_graphs_without_edges() -> None:
    assert np.isfinite(spring(np.zeros((2, 0), np.int64), 5)).all()
    assert spring(np.zeros((2, 0), np.int64), 1).tolist() == [[0, 0]]


@pytest.mark.slow
def test_umap_is_used_where_it_is() -> None:
    pytest.importorskip("umap")
    random = np.random.default_rng(0)
    centres = random.normal(size=(3, 12))
    kind = np.arange(120) % 3
    points, method = plane_of(centres[kind] + 0.1 * random.normal(size=(120, 12)))
    assert method == "UMAP"
    middles = np.stack([points[kind == each].mean(axis=0) for each in range(3)])
    near = np.linalg.norm(points[:, None] - middles[None], axis=2).argmin(axis=1)
    assert (near == kind).mean() > 0.95


@pytest.mark.usefixtures("plain_layout")
def test_runs_without_labels_are_finished(tmp_path: Path) -> None:
    for seed in (0, 1):
        written_run(tmp_path / f"{seed}", "/nowhere/x.npz", seed=seed, epochs=1, result={"images": 40})
    page = page_of(tmp_path / "report.html", tmp_path / "0", tmp_path / "1")
    assert "No score was measured: the data have no labels to test with." in page
    assert "finished" not in main_of(page)
    assert "one run has nothing" not in page
    assert "<dd>1 epoch, batches of" in page
    assert "<dd>2 in 1 row</dd>" in page
    assert "<td>2</td>" in page  # Seeds.


def test_chart_and_table_have_the_same_digits(tmp_path: Path) -> None:
    """35.625 is a tie, which Python rounds to the even digit: chart and table use the same function."""
    for name, linear in (("plain", 0.35625), ("pucl", 0.35875), ("deb", 1.0)):
        for seed in (0, 1):
            result = {"linear": linear - 0.01 * seed * (name == "deb")}
            written_run(tmp_path / f"{name}{seed}", "digits", correction=name, result=result, seed=seed)
    page = page_of(tmp_path / "report.html", *sorted(tmp_path.iterdir()))
    for text in ("35.62", "35.88", "99.50"):
        assert f">{text}</text>" in page
        assert f'{text} <span class="more">±' in main_of(page)
    assert ">+63.88</text>" in page
    assert "▲ +63.88" in main_of(page)
    assert "toFixed(2)" not in page  # The program rounds no scores.


def test_one_seed_has_no_spread(tmp_path: Path) -> None:
    for name in ("plain", "pucl"):
        written_run(tmp_path / name, "digits", correction=name, result={"linear": 0.5})
    page = page_of(tmp_path / "report.html", tmp_path / "plain", tmp_path / "pucl")
    assert "±" not in main_of(page)
    assert "interval, which pairs" not in page
    assert "One seed gives no interval: all of this may be chance." in page
    assert "one seed each" in page
    for name in ("plain", "pucl"):
        written_run(tmp_path / f"{name}1", "digits", correction=name, result={"linear": 0.6}, seed=1)
    page = page_of(tmp_path / "report.html", *(path for path in tmp_path.iterdir() if path.is_dir()))
    assert "One seed gives" not in page
    assert "changes plain training on digits by 0.0 points of linear (no interval)." in page


def test_colours_can_be_told_from_the_ground() -> None:
    for theme in (LIGHT, DARK):
        for name in ("ink", "muted", "same", "other"):
            assert min(contrast(theme[name], theme[ground]) for ground in ("paper", "panel")) >= LEGIBLE
    for light, dark in row_colours([*row_names(), "yours"]):
        assert contrast(light, LIGHT["paper"]) >= VISIBLE
        assert contrast(dark, DARK["paper"]) >= LEGIBLE
    assert len(set(row_colours(row_names()))) == len(row_names())
    assert len(set(row_colours(["pucl"] * 15))) == 15
    assert len({on_dark(colour) for colour in CLASSES}) == len(CLASSES)


@pytest.mark.slow
@pytest.mark.usefixtures("plain_layout")
def test_the_command(comparison: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "page.html"
    command = ["report", str(comparison / "pucl" / "seed-0"), "--out", str(out), "--points=20"]
    assert main(command) == 0
    assert f"page: {out}" in capsys.readouterr().out
    page = out.read_text()
    assert "--out page.html --points 20 --force" in page
    made = space_in(page)
    assert len(numbers(made["indices"], np.uint32)) == 20
    assert np.bincount(numbers(made["labels"], np.uint16)).tolist() == [10, 10]
    assert main([*command, "--force"]) == 0
    assert out.read_text() == page  # The same runs make the same page.
    (tmp_path / "empty").mkdir()
    for wrong, code, message in (
        (command, 2, "exists already: choose another name, or give --force"),
        (["report", str(tmp_path / "nowhere"), "--out", str(out), "--force"], 2, "there is no directory"),
        ([*command, "--points=5", "--force"], 2, "expected 10 to 20000, got 5"),
        (
            ["report", str(tmp_path / "empty"), "--out", str(tmp_path / "x")],
            1,
            "no run can be read, so there is no page",
        ),
    ):
        assert main(wrong) == code
        assert message in capsys.readouterr().err
    assert not (tmp_path / "x").exists()  # So that it is not in the way of the right call.
