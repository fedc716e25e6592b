"""Golden vectors: numbers that reference programs computed. golden/README.md describes the families."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

GOLDEN = Path(__file__).resolve().parent / "golden"
CASES: list[dict[str, Any]] = json.loads((GOLDEN / "cases.json").read_text())["cases"]

FOR_LATER = {
    "decoupled": "no loss without the positive in the denominator yet",
    "rince": "no robust InfoNCE yet",
}
"""Families that no code implements yet, and why no test uses them."""

NOT_REPRODUCED = {
    "cmc-nce": "pucl has CMC's softmax form only; the NCE form is another loss",
    "ring-nceball": "the reference takes the size of the ball from the batch instead of the memory bank",
}
"""Groups (strata) of used families that pucl does not reproduce, and why."""


def golden_cases(*families: str) -> list[Any]:
    """The cases of these families as pytest parameters, without those that are `NOT_REPRODUCED`."""
    known = {case["family"] for case in CASES}
    if unknown := set(families) - known:
        raise ValueError(f"a family of golden vectors is one of {', '.join(sorted(known))}, got {', '.join(unknown)}")
    return [
        pytest.param(case, id=case["name"])
        for case in CASES
        if case["family"] in families and case["stratum"] not in NOT_REPRODUCED
    ]


def golden_arrays(case: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Inputs and expected outputs of a case."""
    with np.load(GOLDEN / f"{case['family']}.npz") as arrays:
        return {name: torch.tensor(arrays[f"{case['name']}/{name}"]) for name in case["inputs"] + case["outputs"]}
