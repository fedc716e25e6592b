"""What several seeds say together."""

import csv
import io
import math
import re
import sys
from dataclasses import replace

import pytest

from pucl.data.errors import ExtraMissingError
from pucl.runs.rows import TableRow, as_csv, as_text, make_row, share_of_lead
from pucl.runs.statistics import Difference, Spread


def test_spread() -> None:
    spread = Spread.of([1.0, 2.0, 3.0])
    assert (spread.mean, spread.deviation, spread.count) == (2.0, 1.0, 3)
    assert Spread.of([4.0]) == Spread(4.0, 0.0, 1)


def test_a_spread_is_shown_where_there_is_one() -> None:
    assert str(Spread.of([35.625, 35.625])) == "35.62 ± 0.00"
    assert str(Spread.of([35.625])) == "35.62"
    assert str(Difference(1.234, 0.5, 2.0)) == "+1.23 (+0.50 to +2.00)"
    assert str(Difference(1.234, None, None)) == "+1.23"


def test_an_interval_ends_where_values_do() -> None:
    for values, interval in (([99.0, 100.0], [99.5 - 12.7062 / 2, 100.0]), ([0.5, 0.0], [0.0, 0.25 + 12.7062 / 4])):
        found = Spread.of(values).interval(0, 100)
        assert found is not None
        assert list(found) == pytest.approx(interval, abs=1e-3)
    assert Spread.of([99.0]).interval(0, 100) is None


def line(values: list[float], name: str = "plain") -> TableRow:
    results = {seed: {"linear": value, "seconds": 1.0} for seed, value in enumerate(values)}
    return make_row(name, "plain", results)


def test_one_seed_has_no_spread_in_a_table() -> None:
    text = as_text([line([0.35625], "one"), line([0.35625, 0.36], "two")])
    one, two = text.splitlines()[2:]
    assert re.search(r"35\.62  +1 ", one)
    assert "±" not in one
    assert "35.81 ± 0.27" in two
    first, second = list(csv.DictReader(io.StringIO(as_csv([line([0.35625], "one"), line([0.3, 0.4], "two")]))))
    assert first["linear_sd"] == ""
    assert float(second["linear_sd"]) == pytest.approx(50**0.5)


def rows_of(**by_seed: list[float]) -> list[TableRow]:
    results = {
        name: {seed: {"linear": value / 100, "seconds": 1.0} for seed, value in enumerate(values)}
        for name, values in by_seed.items()
    }
    return [
        make_row(name, name, found, None if name == "plain" else results["plain"]) for name, found in results.items()
    ]


def test_the_share_of_the_oracles_lead() -> None:
    rows = rows_of(plain=[80.0, 82.0, 81.0], pucl=[82.0, 83.9, 83.1], oracle=[84.0, 86.1, 84.9], untrained=[9.0, 9, 9])
    shares = {row.name: share_of_lead(row, rows, "linear") for row in rows}
    assert shares["pucl"] == pytest.approx(0.5)
    assert shares["oracle"] == 1
    assert shares["plain"] is None
    assert shares["untrained"] is None
    header, _, _, pucl, *_ = as_text(rows).splitlines()
    assert header.index("linear") < header.index("to plain") < header.index("of oracle's lead") < header.index("s/run")
    assert "50%" in pucl
    chance = rows_of(plain=[80.0, 82.0, 81.0], pucl=[82.0, 83.9, 83.1], oracle=[84.0, 81.0, 82.0])
    assert share_of_lead(chance[1], chance, "linear") is None
    assert "lead" not in as_text(chance)


def test_runs_without_labels_are_counted() -> None:
    unlabelled = make_row("plain", "plain", {0: {"seconds": 1.0}, 1: {"seconds": 2.0}})
    assert unlabelled.count == 2
    assert as_text([unlabelled]).splitlines()[2].split() == ["plain", "2", "0.0%", "2"]
    earlier = replace(line([0.5, 0.6]), seeds=())  # Records of earlier versions have no seeds.
    assert earlier.count == 2


def test_paired_difference_has_the_interval_of_student() -> None:
    difference = Difference.between([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    margin = 4.302653 * 1.0 / math.sqrt(3)
    assert difference.mean == 2.0
    assert difference.low == pytest.approx(2.0 - margin)
    assert difference.high == pytest.approx(2.0 + margin)
    assert Difference.between([1.0], [0.5]) == Difference(0.5, None, None)


def test_intervals_need_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    assert Spread.of([1.0]).margin is None
    with pytest.raises(ExtraMissingError, match="the 95 % interval of a mean needs scipy, which is not installed"):
        _ = Spread.of([1.0, 2.0]).margin


@pytest.mark.parametrize("differences", [[0.1], [0.1, 0.1], [0.0, 0.0, 0.0]])
def test_pairs_that_differ_alike_say_nothing_of_an_interval(differences: list[float]) -> None:
    base = [90.3, 91.7, 92.9][: len(differences)]
    found = Difference.between([value + more for value, more in zip(base, differences, strict=True)], base)
    assert found.mean == pytest.approx(differences[0])
    assert found.low is found.high is None
