"""The table of probes: one contract for all, and what records say."""

import numpy as np
import pytest

from pucl.evaluation import PROBES, Labelled, ProbedSamples, folded, known_numbers, measure, numbers_in, train_and_test
from pucl.evaluation.probe import LEADING

pytest.importorskip("sklearn")


def samples_of(kind: str) -> ProbedSamples:
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = (np.eye(3, 5)[labels] + 0.6 * generator.standard_normal((90, 5))).astype(np.float32)
    if kind == "folds":
        return folded(features, labels, folds=3, seed=1)
    parts = (np.arange(40), np.arange(10, 60)) if kind == "parts" else None
    return train_and_test(Labelled(features[:60], labels[:60]), Labelled(features[60:], labels[60:]), parts)


@pytest.mark.parametrize("kind", ["train and test", "parts", "folds"])
@pytest.mark.parametrize("name", PROBES)
def test_every_probe_measures_every_kind_of_samples(name: str, kind: str) -> None:
    probe, samples = PROBES[name], samples_of(kind)
    assert LEADING in probe.numbers
    assert next(iter(probe.numbers)) == LEADING
    record = measure(samples, {name: probe})
    assert {key for key in record if key in known_numbers()} == {
        key for key in known_numbers() if key == name or (key.startswith(f"{name}_") and key not in PROBES)
    }
    assert all(0 < record[key] <= 1 for key in numbers_in([record]))
    assert measure(samples_of(kind), {name: probe}) == record  # The same again.
    perfect = ProbedSamples(
        splits=tuple(type(split)(*map(_perfect, split)) for split in samples.splits), tested=_perfect(samples.tested)
    )
    better = measure(perfect, {name: probe})
    enough = name != "linear-reference"  # Which stops short on few samples.
    assert all(better[key] == pytest.approx(1) for key in numbers_in([better])) or not enough


def _perfect(samples: Labelled) -> Labelled:
    return Labelled(np.eye(3, 5, dtype=np.float32)[samples.labels], samples.labels)


def test_names_are_unique() -> None:
    assert len(known_numbers()) == sum(len(probe.numbers) for probe in PROBES.values())
    for names in zip(*((number.name, number.short) for number in known_numbers().values()), strict=True):
        assert len(set(names)) == len(names)


def test_details_are_by_probe() -> None:
    record = measure(samples_of("folds"), {name: PROBES[name] for name in ("knn", "svm")})
    assert record["knn"] == np.mean(record["folds"]["knn"])
    assert {name: len(folds) for name, folds in record["folds"].items()} == {"knn": 3, "svm": 3}
    assert record["costs"].keys() == record["validation"].keys() == {"svm"}
    assert "folds" not in measure(samples_of("train and test"), {"knn": PROBES["knn"]})


def test_numbers_of_records_are_in_the_order_of_tables() -> None:
    assert numbers_in([{"knn": 1, "loss": 2}, {"linear": 3, "svm": 4}]) == ["svm", "linear", "knn"]
    assert numbers_in([]) == []
