"""The scripts for refactoring: walks count what they say, and digests see every change."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest

import digests
import pucl
import walk
from pucl.contrast.pairing import check_temperature
from pucl.losses import NTXentLoss


def called_names(recorded: walk.Walk) -> set[str]:
    return {function.name for function in recorded.called}


def test_walk_counts_functions_of_pucl_once() -> None:
    recorded = walk.Walk()
    with recorded.recording():
        for _ in range(3):
            check_temperature(0.5)
        np.linspace(0, 1, 3)
    assert "check_temperature" in called_names(recorded)
    assert not [name for name in called_names(recorded) if name.startswith("<")]
    assert all(Path(pucl.__file__).parent in Path(function.file).parents for function in recorded.called)
    assert recorded.counts == {"files": len({each.file for each in recorded.called}), "functions": len(recorded.called)}


def test_walk_follows_threads() -> None:
    recorded = walk.Walk()
    with recorded.recording():
        thread = threading.Thread(target=check_temperature, args=(0.5,))
        thread.start()
        thread.join()
    assert "check_temperature" in called_names(recorded)


def test_walk_inside_and_until_a_function() -> None:
    def work() -> None:
        loss = NTXentLoss(0.5)
        check_temperature(0.5)
        repr(loss)

    inside, until = walk.Walk(inside="check_temperature"), walk.Walk(until="check_temperature")
    for recorded in (inside, until):
        with recorded.recording():
            work()
    assert inside.called < until.called
    assert called_names(inside) >= {"check_temperature"}
    assert "ContrastiveLoss.__init__" not in called_names(inside)


def test_walk_to_a_function_that_is_not_called_is_an_error() -> None:
    with (
        pytest.raises(RuntimeError, match="expected a call of no_such_function"),
        walk.Walk(inside="no_such_function").recording(),
    ):
        check_temperature(0.5)


def test_walk_of_a_loss_is_recorded() -> None:
    counts = walk.walk_loss().counts
    assert 1 <= counts["files"] <= counts["functions"]


def test_digest_depends_on_values_names_types_and_shapes() -> None:
    base = {"a": np.arange(4.0), "b": np.ones(2)}
    changed = [
        base | {"a": np.array([0.0, 1.0, 2.0, np.nextafter(3.0, 4.0)])},
        base | {"a": np.arange(4.0).reshape(2, 2)},
        base | {"b": np.ones(2, dtype=np.float32)},
        {"a": base["a"], "c": base["b"]},
    ]
    assert digests.digest(dict(reversed(base.items()))) == digests.digest(base)
    assert len({digests.digest(arrays) for arrays in [base, *changed]}) == 1 + len(changed)


@pytest.mark.slow
def test_digests_are_repeatable_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "digests.json"
    monkeypatch.setattr("sys.argv", ["digests.py", "infograph, plain", "--write", str(file)])
    assert digests.main() == 0
    monkeypatch.setattr("sys.argv", ["digests.py", "infograph, plain", "--check", str(file)])
    assert digests.main() == 0
    assert "equal" in capsys.readouterr().out
    written = json.loads(file.read_text())
    written["infograph, plain"]["weights"] = "another"
    file.write_text(json.dumps(written))
    assert digests.main() == 1
    printed = capsys.readouterr()
    assert "DIFFERENT weights\n" in printed.out
    assert "1 of 1 differ: infograph, plain" in printed.err
