"""What the tests of benchmarks share."""

import importlib.util
import warnings

import pytest

if importlib.util.find_spec("torch_geometric") is not None:
    with warnings.catch_warnings(action="ignore"):  # Its warnings at import are not ours.
        importlib.import_module("torch_geometric.nn")


@pytest.fixture(autouse=True)
def no_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks collect garbage after each round, which takes long beside a test suite."""
    monkeypatch.setattr("gc.collect", lambda: 0)
