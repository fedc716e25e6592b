"""The page of a report: what it says is what was measured."""

import argparse
import base64
import io
import json
import shutil
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from page_records import numbers, record_in, written_run
from pucl.commands import report
from pucl.config import ROWS
from pucl.graphs import thumbnails
from pucl.graphs.registry import load_graphs
from pucl.graphs.thumbnails import spring
from pucl.images.registry import load
from pucl.reports.page import BYTES, as_script, space, write_report
from pucl.reports.page.colours import CLASSES, DARK, LEGIBLE, LIGHT, OTHER, SAME, SEEN, contrast, on_dark, row_colours
from pucl.reports.page.records import gather
from pucl.runs.collection import ENVIRONMENTS, METRICS, RUNS


def main_of(page: str) -> str:
    """What a reader with scripts sees of it."""
    return page.split("<main>")[1].split("</noscript>")[1].partition("</main>")[0]


def page_of(tmp_path: Path, *places: Path, **options: Any) -> str:
    return write_report(tmp_path / "report.html", places, **options).read_text()


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
        "Nearest samples of one anchor",
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
    first = known["suggested"]["closest"][0]
    cosines = values @ values[first["anchor"]]
    near = [place for place in np.argsort(-cosines) if place != first["anchor"]][: space.NEAREST]
    anchor_class = labels[places][first["anchor"]]
    assert first["same"] == int((labels[places][near] == anchor_class).sum())
    assert first["closeness"] == pytest.approx(cosines[near].mean(), abs=1e-3)


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
        "There is no chart of accuracies: none was measured.",
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
    assert "One run alone is no comparison" in page
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
    page = page_of(tmp_path, copy, tmp_path / "other", tmp_path / "broken")
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
    (part,) = record_in(page)["parts"]
    assert len(part["rows"]) == 3  # The record of the comparison is whole.
    assert [each["row"] for each in part["space"]["maps"]] == [0]


@pytest.mark.usefixtures("plain_layout")
def test_a_page_from_a_collection_alone(comparison: Path, tmp_path: Path) -> None:
    """Without directories of runs there are the same numbers and curves, and no map."""
    (tmp_path / "alone").mkdir()
    for name in (RUNS, METRICS, ENVIRONMENTS, "comparison.json"):
        shutil.copy(comparison / name, tmp_path / "alone" / name)
    (whole,) = record_in(page_of(tmp_path, comparison))["parts"]
    page = page_of(tmp_path, tmp_path / "alone")
    (part,) = record_in(page)["parts"]
    assert part["rows"] == whole["rows"]
    assert part["curves"] == whole["curves"]
    assert len(part["curves"][0]["rows"]) == 2
    assert "There is no map: none of the runs has embeddings here" in page
    assert "What could not be read" not in page


def test_nothing_readable_is_a_page_too(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    page = page_of(tmp_path, tmp_path / "empty")
    assert "None of what was given could be read" in page
    assert record_in(page)["parts"] == []


def test_an_unfinished_run_shows_its_curves(tmp_path: Path) -> None:
    place = written_run(tmp_path / "run", "digits")
    (place / "result.json").unlink()
    lines = [{"epoch": n, "step": n, "loss": loss} for n, loss in ((1, 2.0), (2, float("nan")), (3, 1.0))]
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = page_of(tmp_path, place)
    assert "is not finished: 3 of 12 epochs shown" in page
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


def test_rows_of_another_length_are_not_compared(tmp_path: Path) -> None:
    for name, correction, epochs in (("a", "plain", 1), ("b", "ring", 2), ("c", "ring", 1)):
        result = {"linear": 0.5, "knn": 0.5}
        written_run(tmp_path / name, "digits", correction=correction, result=result, epochs=epochs)
    (group,) = gather([tmp_path / name for name in "abc"]).groups
    compared = {row.line.name: bool(row.line.differences) for row in group.rows}
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
def test_embeddings_that_are_none(comparison: Path, tmp_path: Path, arrays: dict[str, Any], why: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(comparison, copy)
    np.savez(copy / "plain" / "seed-0" / "embeddings.npz", **arrays)
    foot = page_of(tmp_path, copy).split("What could not be read")[1]
    assert f"<code>copy/plain/seed-0</code>: {why}" in foot


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
    places, method = space.layout(centres[kind] + 0.1 * random.normal(size=(120, 12)))
    assert method == "UMAP"
    middles = np.stack([places[kind == each].mean(axis=0) for each in range(3)])
    near = np.linalg.norm(places[:, None] - middles[None], axis=2).argmin(axis=1)
    assert (near == kind).mean() > 0.95


@pytest.mark.usefixtures("plain_layout")
def test_no_number_of_hidden_positives_is_guessed(comparison: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, comparison)
    for words in ("are expected to be", "likely a hidden positive", "probab", "expected"):
        assert words not in page
    known = record_in(page)["parts"][0]["space"]["maps"][2]
    assert "chance" not in known
    assert known["average"].keys() == {"shown", "same", "by_chance"}


def test_the_average_is_shown_beside_chance() -> None:
    labels = np.repeat([0, 1], [30, 10])
    perfect = space.unit(np.eye(2)[labels])
    found = space.average(perfect, labels)
    assert found["same"] == pytest.approx((30 * 24 + 10 * 9) / 40)
    assert found["by_chance"] == pytest.approx(24 * (30 * 29 + 10 * 9) / (40 * 39), abs=0.01)
    assert space.average(perfect, None) == {"shown": 24, "same": None, "by_chance": None}


def test_suggestions_are_by_similarity() -> None:
    random = np.random.default_rng(0)
    close, loose = random.normal(size=8) + 0.05 * random.normal(size=(30, 8)), random.normal(size=(60, 8))
    made = space.suggestions(space.unit(np.concatenate([loose, close])), None)
    assert made.keys() == {"closest", "spread"}
    assert made["closest"][0]["anchor"] >= 60
    closeness = [each["closeness"] for each in made["closest"]]
    assert closeness == sorted(closeness, reverse=True)


@pytest.mark.usefixtures("plain_layout")
def test_runs_without_labels_are_finished(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    for seed in (0, 1):
        written_run(
            tmp_path / f"{seed}", "/nowhere/x.npz", features=features, seed=seed, epochs=1, result={"images": 40}
        )
    page = page_of(tmp_path, tmp_path / "0", tmp_path / "1")
    assert "No accuracy was measured: the data have no labels to test with." in page
    assert "finished" not in main_of(page)
    assert "There is no chart of accuracies: none was measured." in page
    assert "One run alone" not in page
    assert "<dd>1 epoch, batches of" in page
    assert "<dd>2 in 1 row</dd>" in page
    assert '<td data-value="2">2</td>' in page  # Seeds.
    (tmp_path / "0" / "result.json").unlink()
    (tmp_path / "0" / "metrics.jsonl").write_text(json.dumps({"epoch": 1, "step": 1, "loss": 2.0}) + "\n")
    page = page_of(tmp_path, tmp_path / "0")
    assert "No run is finished, so there is no accuracy yet." in page
    assert "is not finished: 1 of 1 epoch shown" in page


def test_chart_and_table_have_the_same_digits(tmp_path: Path) -> None:
    """35.625 is a tie, which Python rounds down and JavaScript up: the chart has its words from Python."""
    for name, linear in (("plain", 0.35625), ("pucl", 0.35875), ("deb", 1.0)):
        for seed in (0, 1):
            result = {"linear": linear - 0.01 * seed * (name == "deb")}
            written_run(tmp_path / f"{name}{seed}", "digits", correction=name, result=result, seed=seed)
    page = page_of(tmp_path, *sorted(tmp_path.iterdir()))
    (part,) = record_in(page)["parts"]
    scores = {row["name"]: row["scores"]["linear"] for row in part["rows"]}
    for name, said in (("plain", "35.62"), ("pucl", "35.88"), ("deb", "99.50")):
        assert scores[name]["said"] == said
        assert f'{said} <span class="more">±' in main_of(page)
    assert scores["deb"]["ends"][1] == 100  # An interval ends where accuracies do.
    differences = {row["name"]: row["differences"]["linear"] for row in part["rows"] if row["differences"]}
    assert differences["deb"]["said"] == "+63.88"
    assert "+63.88" in main_of(page)
    assert "toFixed(2)" not in page  # No other place rounds accuracies.


def test_one_seed_has_no_spread(tmp_path: Path) -> None:
    for name in ("plain", "pucl"):
        written_run(tmp_path / name, "digits", correction=name, result={"linear": 0.5})
    page = page_of(tmp_path, tmp_path / "plain", tmp_path / "pucl")
    assert "±" not in main_of(page)
    assert "interval, which pairs" not in page
    assert "With one seed there is no interval." in page
    for name in ("plain", "pucl"):
        written_run(tmp_path / f"{name}1", "digits", correction=name, result={"linear": 0.6}, seed=1)
    page = page_of(tmp_path, *(path for path in tmp_path.iterdir() if path.is_dir()))
    assert "With one seed" not in page
    assert "it takes two seeds in common with plain, with differences that differ" in page


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
    assert not (tmp_path / "x.html").exists()  # So that it is not in the way of the right call.
    assert "nothing to show, so there is no page" in capsys.readouterr().err


@pytest.mark.parametrize("labelled", [True, False])
def test_anchors_of_all_kinds_are_of_all_classes(*, labelled: bool) -> None:
    """Samples come in turns of two classes, which a stride would not notice."""
    random = np.random.default_rng(0)
    labels = np.arange(23) % 2
    values = space.unit(random.normal(size=(23, 6)))
    found = space.suggestions(values, labels if labelled else None)["spread"]
    assert len({each["anchor"] for each in found}) == space.ANCHORS
    assert set(labels[[each["anchor"] for each in found]]) == {0, 1}
