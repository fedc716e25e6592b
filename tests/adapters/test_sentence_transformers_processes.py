"""Ranking losses of several processes that gather their texts, against one process with the whole batch."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from pucl import processes
from pucl.adapters.sentence_transformers import CachedRankingLoss, RankingLoss
from pucl.corrections import GloFND, Ratio
from small_sentences import columns_of, gradients, load_model, save_model, step, tokens
from worlds import results_together

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
SIZES = (3, 4, 2)  # Rows of each process.
BOTH: Any = ("query_to_doc", "doc_to_query")
CASES: dict[str, dict[str, Any]] = {
    "plain": {"correction": None},
    "pucl, both ways": {"correction": "pucl", "scale": 2.0, "directions": BOTH},
    "labels": {"correction": "deb", "scale": 2.0, "groups": ("texts", "labels")},
    "left out": {"correction": "deb", "scale": 2.0, "groups": ("texts", "labels"), "attract": False},
    "ratio": {"correction": Ratio(tau_plus=0.1, warm_up=1), "directions": BOTH},
    "glofnd": {"correction": GloFND(dropped=0.3, wait=0), "samples": 9},
    "auto": {"correction": "auto"},
}


def compare_all() -> dict[str, Any]:
    """For each case the largest differences of loss, gradient and state to those of one process, in this process."""
    count = processes.world_size()
    rows = sum(SIZES[:count])
    columns = columns_of(rows, 3)
    columns[0][-1] = columns[0][0]  # The same query in the first and in the last process.
    columns[2][1] = columns[1][rows - 2]  # A document of another process as a hard negative.
    labels = torch.tensor([1, -1, 2, 1, -1, 2, -1, -1, 2])[:rows]
    start = sum(SIZES[: processes.rank()])
    own = slice(start, start + SIZES[processes.rank()])
    with tempfile.TemporaryDirectory() as given:
        directory = processes.from_first(lambda: Path(given))
        if processes.rank() == 0:
            save_model(directory)
        processes.from_first(lambda: None)  # It is written.
        model = load_model(directory)
        processes.sum_over_processes(torch.zeros(1))  # It is read.
    whole, part = tokens(model, columns), tokens(model, [column[own] for column in columns])
    found = {}
    for name, settings in CASES.items():
        alone = RankingLoss(model, **settings)
        for kind in (RankingLoss, CachedRankingLoss):
            torch.manual_seed(0)
            loss = kind(model, gather_across_devices=True, **settings)
            if isinstance(loss, CachedRankingLoss):
                loss.mini_batch_size = 2
                alone = RankingLoss(model, **settings)
            for _ in range(2):
                expected, gradient = step(alone, whole, labels)
                value, _ = step(loss, part, labels[own])
                processes.average_gradients(model)
            states = [
                torch.cat([torch.zeros(1), *(b.flatten() for b in each.loss.buffers())]) for each in (loss, alone)
            ]
            assert alone.last is not None
            found[f"{name}, {kind.__name__}"] = [
                abs(float(value - expected)),
                float((gradients(model) - gradient).abs().max()),
                float((states[0] - states[1]).nan_to_num().abs().max()),  # A threshold that is not set is infinite.
                float(alone.last.floored),
                float(expected),
            ]
    return found


@pytest.mark.parametrize("count", [2, 3])
def test_many_processes_do_what_one_does(count: int) -> None:
    for found in results_together(__file__, "compare_all", count):
        assert len(found) == 2 * len(CASES)
        for name, (loss, gradient, state, floored, value) in found.items():
            assert max(loss, gradient, state) < 1e-9, name
            assert floored < 1, name
            assert value > 1e-3, name
