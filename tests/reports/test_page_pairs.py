"""What a page says of pairs: the costliest, r of neighbours, and how much of a push goes to the own class."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from page_records import charts_in, numbers, page_of, space_in, written_run
from pucl.corrections.clusters import PARTITIONS
from pucl.diagnosis.layout2d import nearest
from pucl.reports.page import neighbours
from pucl.reports.page.pairs import PAIRS
from small_runs import make_pictures

pytestmark = pytest.mark.usefixtures("plain_layout")


def labels_of(pictures: Path) -> NDArray[np.int64]:
    with np.load(pictures) as file:
        labels: NDArray[np.int64] = file["labels"]
    return labels


def features_of(count: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(count, 12)).astype(np.float32)


def run_with_r(place: Path, pictures: Path, error: float | None, **result: Any) -> Path:
    """A run of `clusters` on the pictures with random features, whose communities are the classes but for one."""
    labels = labels_of(pictures)
    groups = np.repeat(labels[:, None], PARTITIONS, axis=1)
    groups[:, -1] = 0  # This one has all samples together.
    kept = {"correction.groups": groups, "correction.opened": np.array(True)}
    return written_run(
        place,
        str(pictures),
        correction="clusters",
        features=features_of(len(labels)),
        labels=labels,
        result=result if error is None else {"calibration.error": error, **result},
        kept=kept,
    )


def shares_of(features: NDArray[np.float32], temperature: float) -> dict[tuple[int, int], float]:
    """The share of plain's push that each pair takes: loops over the formula."""
    rows = (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(float)
    terms = np.exp(rows @ rows.T / temperature)
    totals = [sum(terms[i, k] for k in range(len(rows)) if k != i) for i in range(len(rows))]
    return {
        (i, j): (terms[i, j] / totals[i] + terms[i, j] / totals[j]) / len(rows)
        for i, j in combinations(range(len(rows)), 2)
    }


def test_pairs_of_plain_by_the_r_of_another_row_and_by_the_labels(pictures: Path, tmp_path: Path) -> None:
    labels, temperature = labels_of(pictures), 0.3
    features = features_of(len(labels), 1)
    run = run_with_r(tmp_path / "clusters", pictures, 0.05)
    config = json.loads((run / "config.json").read_text()) | {"temperature": temperature}
    (run / "config.json").write_text(json.dumps(config))
    plain = written_run(tmp_path / "plain", str(pictures), features=features, labels=labels, temperature=temperature)
    page = page_of(tmp_path / "report.html", run, plain)
    space = space_in(page)
    assert (space["base"], space["first"]) == (1, 0)
    assert [each["name"] for each in space["pairs"]] == ["r of clusters", "pairs of one class, by the labels"]
    assert [each["probability"] for each in space["pairs"]] == [True, False]
    shares = shares_of(features, temperature)
    same = {pair: labels[pair[0]] == labels[pair[1]] for pair in shares}
    known = [
        {pair: 1.0 if same[pair] else (1 / PARTITIONS) ** 2 for pair in shares},
        {pair: 1.0 * same[pair] for pair in shares},
    ]
    for made, r in zip(space["pairs"], known, strict=True):
        order = sorted(shares, key=lambda pair: -r[pair] * shares[pair])[:PAIRS]
        assert [(pair["first"], pair["second"]) for pair in made["pairs"]] == order
        for pair in made["pairs"]:
            at = pair["first"], pair["second"]
            assert pair["share"] == pytest.approx(shares[at], rel=1e-3)
            assert pair["r"] == pytest.approx(r[at], abs=1e-4)
        cost = 100 * sum(r[pair] * shares[pair] for pair in shares)
        assert f"All such pairs together take {cost:.1f}% of the push." in made["about"]
    assert "0.050, by the labels" in space["pairs"][0]["about"]
    own = 100 * sum(shares[pair] for pair in shares if same[pair])
    assert f"{own:.0f}% of the push of plain goes to samples of the anchor&#x27;s own class." in page
    assert numbers(space["maps"][1]["own"], np.uint16).mean() / 655.35 == pytest.approx(own, abs=0.01)


def test_pairs_by_similarity_alone(tmp_path: Path) -> None:
    features = features_of(40)
    page = page_of(tmp_path / "report.html", written_run(tmp_path / "run", "/nowhere/x.npz", features=features))
    (made,) = space_in(page)["pairs"]
    assert made["name"] == "similarity alone"
    assert "need not be hidden positives" in made["about"]
    shares = shares_of(features, 0.5)
    assert [(pair["first"], pair["second"]) for pair in made["pairs"]] == sorted(shares, key=lambda at: -shares[at])[
        :PAIRS
    ]
    assert {pair["r"] for pair in made["pairs"]} == {None}
    assert "of the push of plain" not in page  # It is unknown.


def test_the_oracle_pushes_nothing_of_its_own_class(pictures: Path, tmp_path: Path) -> None:
    labels = labels_of(pictures)
    for name in ("plain", "oracle", "ratio", "untrained", "pucl"):
        written_run(tmp_path / name, str(pictures), correction=name, features=features_of(len(labels)), labels=labels)
    page = page_of(
        tmp_path / "report.html", *(tmp_path / name for name in ("plain", "oracle", "ratio", "untrained", "pucl"))
    )
    own = {each["name"]: each["own"] and numbers(each["own"], np.uint16) for each in space_in(page)["maps"]}
    assert own["oracle"].tolist() == [0] * len(labels)
    assert own["ratio"] is None  # What it learnt is not kept.
    assert own["untrained"] is None
    assert 0 < own["plain"].min() < own["plain"].max() < 65535
    np.testing.assert_array_equal(own["plain"], own["pucl"])  # Its weights are uniform too: it subtracts a mean.
    assert "on their own features: oracle 0%, pucl " in page


def test_names_are_those_of_the_files(tmp_path: Path) -> None:
    from PIL import Image  # noqa: PLC0415

    images, labels = make_pictures(40, 16)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        file = tmp_path / "data" / f"kind {label}" / f"scan-{number:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    kept = 32  # A fifth is held back for tests.
    run = written_run(tmp_path / "run", str(tmp_path / "data"), features=features_of(kept), labels=None)
    space = space_in(page_of(tmp_path / "report.html", run, root=tmp_path / "root"))
    assert len(space["names"]) == kept
    assert all(name.startswith("kind ") and name.endswith(".png") for name in space["names"])
    classes = [space["classes"][label] for label in numbers(space["labels"], np.uint16)]
    assert [name.split("/")[0] for name in space["names"]] == classes


def test_r_of_the_neighbours(pictures: Path, tmp_path: Path) -> None:
    made = space_in(page_of(tmp_path / "report.html", run_with_r(tmp_path / "run", pictures, 0.1)))
    record, count = made["maps"][0], len(numbers(made["indices"], np.uint32))
    codes = numbers(record["codes"], np.uint8).reshape(count, -1)
    values = (np.array(record["low"]) + np.array(record["step"]) * codes).astype(np.float32)
    near, _ = nearest(values.astype(np.float64), neighbours.NEAREST)
    labels = numbers(made["labels"], np.uint16)
    r = numbers(record["hidden"]["codes"], np.uint8).reshape(near.shape) / 255
    expected = np.where(labels[near] == labels[:, None], 1, (1 / PARTITIONS) ** 2)
    np.testing.assert_allclose(r, expected, atol=0.5 / 255)
    assert len(np.unique(expected)) == 2
    checks = [sum(rank * number for rank, number in enumerate(row, 1)) % 65536 for row in near.tolist()]
    assert numbers(record["hidden"]["checks"], np.uint16).tolist() == checks


@pytest.mark.parametrize(("error", "probability"), [(0.1, True), (0.1001, False), (None, False)])
def test_r_is_a_probability_if_it_is_calibrated(
    error: float | None, probability: bool, pictures: Path, tmp_path: Path
) -> None:
    space = space_in(page_of(tmp_path / "report.html", run_with_r(tmp_path / "run", pictures, error)))
    hidden: dict[str, Any] = space["maps"][0]["hidden"]
    assert hidden["probability"] == space["pairs"][0]["probability"] == probability
    said = "calibration was not measured" if error is None else f"calibration error was {error:.3f}"
    assert said in hidden["about"]
    assert said in space["pairs"][0]["about"]
    assert ("counts as calibrated" in hidden["about"]) == (error is not None and not probability)


def test_damaged_r_is_reported_and_the_map_stays(pictures: Path, tmp_path: Path) -> None:
    place = run_with_r(tmp_path / "run", pictures, 0.1)
    with np.load(place / "embeddings.npz") as file:
        arrays = dict(file) | {"correction.groups": np.zeros((3, PARTITIONS), np.int64)}
    np.savez(place / "embeddings.npz", **arrays)
    page = page_of(tmp_path / "report.html", place)
    space = space_in(page)
    assert space["maps"][0]["hidden"] is None
    assert [each["name"] for each in space["pairs"]] == ["pairs of one class, by the labels"]
    assert "what the correction has learnt does not fit" in page
    assert str(tmp_path) not in page


def test_the_page_says_what_a_correction_reported(pictures: Path, tmp_path: Path) -> None:
    said = {"correction.report": "plain: two halves < agree"}
    place = run_with_r(tmp_path / "run", pictures, 0.1, **said)
    lines = [
        {"epoch": epoch, "step": epoch, "correction.removed": 0.1 * epoch, "correction.repeatable": 0.2 * epoch, **said}
        for epoch in (1, 2, 3)
    ]
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = page_of(tmp_path / "report.html", place)
    assert "<dt>clusters, at the end, seed 0</dt><dd>plain: two halves &lt; agree</dd>" in page
    assert charts_in(page)[-2:] == [
        "Removed from plain&#x27;s sum over 3 epochs; at the end clusters 0.3",
        "Agreement of communities over 3 epochs; at the end clusters 0.6",
    ]


def test_calibration_of_an_epoch_has_its_charts(pictures: Path, tmp_path: Path) -> None:
    place = run_with_r(tmp_path / "run", pictures, 0.1)
    lines = [
        {"epoch": epoch, "step": epoch, "calibration.error": 0.3 / epoch, "calibration.curve": [[0.3, 0.25, 40]]}
        for epoch in (1, 2, 3)
    ]
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    charts = charts_in(page_of(tmp_path / "report.html", place))
    assert charts[-2:] == [
        "Calibration error of r over 3 epochs; at the end clusters 0.1",
        "Share of pairs of one class by r. clusters: 0.25 at r 0.30",
    ]
