"""Losses and memories against the golden vectors, at the tolerance of each case, dense and streaming."""

import ast
import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pucl
from golden_cases import CASES, FOR_LATER, GOLDEN, NOT_REPRODUCED, golden_arrays, golden_cases
from pucl.contrast.objective import average_unlabelled
from pucl.contrast.objectives import LOW_TEMPERATURE, InfoNCE
from pucl.corrections import BCL, Correction, Debiased, Hard, Plain, Ring
from pucl.frameworks.moco import move_towards
from pucl.functional import contrastive_loss, corrected_loss, local_global_loss, pair_views
from pucl.memory import Bank, Queue

Case = dict[str, Any]
Arrays = dict[str, torch.Tensor]

pytestmark = [
    pytest.mark.usefixtures("small_tiles"),
    pytest.mark.filterwarnings("ignore::pucl.FlooredWarning"),
]
both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])


@functools.cache
def families_in_use() -> set[str]:
    """The families that tests ask for, by the calls of `golden_cases` in their files."""
    texts = [path.read_text() for path in Path(__file__).parent.rglob("test_*.py")]
    calls = [
        node
        for text in texts
        if "golden_cases" in text  # Parsing all files takes seconds.
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "golden_cases"
    ]
    return {str(word.value) for call in calls for word in call.args if isinstance(word, ast.Constant)}


def test_every_family_is_used_or_kept_for_later() -> None:
    families = {case["family"] for case in CASES}
    used = families_in_use()
    assert used | set(FOR_LATER) == families
    assert not used & set(FOR_LATER), "remove from FOR_LATER what a test uses"


def test_every_case_that_is_left_out_exists() -> None:
    strata = {case["stratum"] for case in CASES if case["family"] in families_in_use()}
    assert set(NOT_REPRODUCED) <= strata


@pytest.mark.parametrize("family", sorted({case["family"] for case in CASES}))
def test_files_hold_what_the_index_says(family: str) -> None:
    """Also of families that no test uses yet: no array is missing, none is left over."""
    cases = [case for case in CASES if case["family"] == family]
    with np.load(GOLDEN / f"{family}.npz") as arrays:
        named = {f"{case['name']}/{name}" for case in cases for name in case["inputs"] + case["outputs"]}
        assert set(arrays.files) == named
        assert all(np.isfinite(arrays[name]).all() for name in named)
    assert len({case["name"] for case in cases}) == len(cases)


def test_every_file_of_vectors_is_in_the_index() -> None:
    assert {path.stem for path in GOLDEN.glob("*.npz")} == {case["family"] for case in CASES}


def agrees(case: Case, actual: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = case["tolerance"]
    torch.testing.assert_close(actual.detach(), expected, rtol=tolerance["rtol"], atol=tolerance["atol"])


def agrees_with_gradients(case: Case, arrays: Arrays, loss: torch.Tensor, **inputs: torch.Tensor) -> None:
    """The loss, and its gradients by these inputs."""
    agrees(case, loss, arrays["loss"])
    for name, gradient in zip(inputs, torch.autograd.grad(loss, list(inputs.values())), strict=True):
        agrees(case, gradient, arrays[f"grad_{name}"])


def leaves(arrays: Arrays, *names: str) -> list[torch.Tensor]:
    return [arrays[name].clone().requires_grad_() for name in names]


def of_two_views(name: str) -> bool:
    return not any(word in name for word in ("bank", "oneway"))


def correction_of(case: Case) -> Correction:
    hyper = case["hyper"]
    if case["family"] == "plain" or hyper.get("estimator") == "easy":
        return Plain()
    if case["family"] == "deb":
        return Debiased(tau_plus=hyper["tau_plus"])
    return Hard(tau_plus=hyper["tau_plus"], beta=hyper["beta"])


@both_ways
@pytest.mark.parametrize("case", [case for case in golden_cases("plain", "deb", "hcl") if of_two_views(case.id)])
def test_two_views(case: Case, streaming: bool) -> None:
    arrays, hyper = golden_arrays(case), case["hyper"]
    # The reference adds the two views' losses where everybody else averages them.
    scale = 2 if "sumviews" in case["name"] else 1
    for names, normalize in ((("z1", "z2"), True), (("out1", "out2"), False)):
        if names[0] not in arrays:
            continue
        first, second = leaves(arrays, *names)
        pairs = pair_views([first, second], temperature=hyper["temperature"], normalize=normalize)
        outcome = corrected_loss(pairs, correction_of(case), floor="temperature", streaming=streaming)
        if hyper["temperature"] >= LOW_TEMPERATURE:  # Here the default floor is that of the reference programs.
            assert torch.equal(corrected_loss(pairs, correction_of(case), streaming=streaming).loss, outcome.loss)
        inputs = dict(zip(names, (first, second), strict=True))
        agrees_with_gradients(case, arrays, outcome.loss.mean() * scale, **inputs)
        if "n_clamped" in case:
            assert outcome.floored * case["n_anchors"] == pytest.approx(case["n_clamped"])


@pytest.mark.parametrize("case", golden_cases("deb"))
def test_estimate_over_negatives(case: Case) -> None:
    arrays, hyper = golden_arrays(case), case["hyper"]
    pairs = pair_views([arrays["z1"], arrays["z2"]], temperature=hyper["temperature"])
    correction = correction_of(case)
    summary = average_unlabelled(pairs.comparison(), correction, InfoNCE())
    agrees(case, summary.positive[:, 0].exp(), arrays["h_pos"])
    # N mu from the loss, -log(h / (h + N mu)), so that floor and estimate are both seen.
    losses, _ = InfoNCE().losses(summary, correction.odds, "temperature")
    agrees(case, torch.expm1(losses) * arrays["h_pos"], arrays["Ng"])


@both_ways
@pytest.mark.parametrize("case", golden_cases("bcl"))
def test_bayesian_weights(case: Case, streaming: bool) -> None:
    arrays, hyper = golden_arrays(case), case["hyper"]
    correction = BCL(tau_plus=hyper["tau_plus"], auc=hyper["alpha"], hardness=hyper["beta"])
    for names, normalize in ((("z1", "z2"), True), (("out1", "out2"), False)):
        first, second = leaves(arrays, *names)
        pairs = pair_views([first, second], temperature=hyper["temperature"], normalize=normalize)
        outcome = corrected_loss(pairs, correction, streaming=streaming)
        assert outcome.floored == 0
        inputs = dict(zip(names, (first, second), strict=True))
        agrees_with_gradients(case, arrays, outcome.loss.mean(), **inputs)
    comparison = pairs.comparison()
    assert comparison.mask is not None
    omega = correction.log_weights(comparison).exp()[comparison.mask]
    agrees(case, omega.view_as(arrays["omega"]), arrays["omega"])
    # N mu from the loss, -log(h / (h + N mu)).
    agrees(case, torch.expm1(outcome.loss) * arrays["h_pos"], arrays["Ng"])


@both_ways
@pytest.mark.parametrize("case", golden_cases("supervised"))
def test_supervised(case: Case, streaming: bool) -> None:
    arrays, hyper = golden_arrays(case), case["hyper"]
    (embeds,) = leaves(arrays, "embeds")
    loss = pucl.SupConLoss(
        "sincere" if case["stratum"] == "sup-sincere" else "supcon",
        temperature=hyper["temperature"],
        base_temperature=hyper.get("base_temperature"),
        streaming=streaming,
    )
    agrees(case, loss(*embeds.unbind(1), labels=arrays["labels"]), arrays["loss"])
    # The reference treats vectors of length 1 as free variables.
    pairs = pair_views(embeds.unbind(1), temperature=hyper["temperature"], normalize=False)
    labels = arrays["labels"].repeat(embeds.shape[1])
    value = loss.outcome(loss.use_labels(pairs, labels, labels)).loss.mean()
    agrees(case, value, arrays["loss"])
    agrees(case, torch.autograd.grad(value, embeds)[0], arrays["grad"])


@both_ways
@pytest.mark.parametrize("case", [case for case in golden_cases("plain") if "oneway" in case.id])
def test_one_way(case: Case, streaming: bool) -> None:
    arrays = golden_arrays(case)
    z1, z2 = leaves(arrays, "z1", "z2")
    ids = torch.arange(len(z1))
    options: dict[str, Any] = {"query_ids": ids, "unlabelled_ids": ids, "streaming": streaming}
    loss = contrastive_loss(z1, z2, z2, Plain(), temperature=case["hyper"]["temperature"], **options)
    agrees_with_gradients(case, arrays, loss, z1=z1, z2=z2)


@both_ways
@pytest.mark.parametrize("case", [case for case in golden_cases("plain") if "bank" in case.id])
def test_memory_bank_of_lightly(case: Case, streaming: bool) -> None:
    arrays, hyper = golden_arrays(case), case["hyper"]
    z1, z2 = leaves(arrays, "z1", "z2")
    loss = pucl.NTXentLoss(
        hyper["temperature"], memory_bank_size=(len(arrays["bank"]), arrays["bank"].shape[1]), streaming=streaming
    ).double()
    assert loss.queue is not None
    loss.queue.push(arrays["bank"])
    loss.queue.position.copy_(arrays["ptr"][0])
    agrees_with_gradients(case, arrays, loss(z1, z2), z1=z1, z2=z2)
    size, batch, start = hyper["K"], len(z1), hyper["ptr"]
    if start + batch <= size:  # Past the end lightly drops keys; the queue of pucl wraps around.
        agrees(case, loss.queue.keys, arrays["bank_after"])
    keys = torch.nn.functional.normalize(arrays["z2"], dim=1)
    agrees(case, loss.queue.keys[(start + torch.arange(batch)) % size], keys)


@both_ways
@pytest.mark.parametrize("case", golden_cases("ring"))
def test_ring(case: Case, streaming: bool) -> None:
    arrays, hyper = golden_arrays(case), case["hyper"]
    if "noise_indx" in arrays:
        ring_with_draws(case, arrays, streaming)
        return
    q, k = leaves(arrays, "q", "k")
    samples = len(arrays["queue"])
    end = int(hyper.get("thres_outer", 1.0) * samples)
    if "ball" in case["name"] or "moco" in case["name"]:
        begin = 0
    else:
        begin = int(hyper["thres_inner"] * (end if hyper["dynamic_inner"] else samples))
    # Half a rank more than the reference's keeps the rounding of a share away from the next rank.
    correction = Ring(lower=(begin + 0.5) / samples if begin else 0.0, upper=min(1.0, (end + 0.5) / samples))
    loss = contrastive_loss(q, k, arrays["queue"], correction, temperature=hyper["t"], streaming=streaming)
    agrees_with_gradients(case, arrays, loss, q=q, k=k)


def ring_with_draws(case: Case, arrays: Arrays, streaming: bool) -> None:
    """The memory-bank form: samples are drawn from the ring, and the bank follows."""
    hyper, bank, indices = case["hyper"], arrays["bank"], arrays["indices"]
    (z,) = leaves(arrays, "z")
    similarity = torch.nn.functional.normalize(arrays["z"], dim=1) @ bank.T
    end = int(hyper["thres_outer"] * len(bank))
    begin = int(hyper["thres_inner"] * end)
    ring = similarity.argsort(dim=1, descending=True)[:, begin:end]
    drawn = bank[ring.gather(1, arrays["noise_indx"])]
    loss = contrastive_loss(z, bank[indices], drawn, Plain(), temperature=hyper["t"], streaming=streaming)
    agrees_with_gradients(case, arrays, loss, z=z)
    memory = Bank(len(bank), bank.shape[1], momentum=hyper["m"]).double()
    memory.entries.copy_(bank)
    memory.update(indices, arrays["z"])
    agrees(case, memory.entries, arrays["bank_after"])


@both_ways
@pytest.mark.parametrize("case", golden_cases("moco"))
def test_moco(case: Case, streaming: bool) -> None:
    arrays, hyper = golden_arrays(case), case["hyper"]
    if case["stratum"] == "moco-queue":
        queue = filled_queue(arrays["queue"].T, arrays["ptr"])
        for step, keys in enumerate(arrays["keys"]):
            queue.push(keys)
            agrees(case, queue.keys.T, arrays["queues_after"][step])
            assert queue.position == arrays["ptrs_after"][step]
    elif case["stratum"] == "moco-ema":
        slow, fast = holder(arrays["param_k0"]), holder(arrays["param_k0"])
        for step, parameters in enumerate(arrays["param_q"]):
            with torch.no_grad():
                fast.weight.copy_(parameters)
            move_towards(slow, fast, hyper["m"])
            agrees(case, slow.weight[0], arrays["param_k"][step])
    elif case["stratum"] == "moco-infonce":
        (q,) = leaves(arrays, "q")
        loss = contrastive_loss(q, arrays["k"], arrays["queue"].T, Plain(), temperature=hyper["T"], streaming=streaming)
        agrees_with_gradients(case, arrays, loss, q=q)
    else:
        moco_step(case, arrays, streaming)


def moco_step(case: Case, arrays: Arrays, streaming: bool) -> None:
    """One step of MoCo: the key encoder follows, keys are compared with the old queue, then pushed."""
    hyper = case["hyper"]
    fast, slow = linear(arrays["wq"], arrays["bq"]), linear(arrays["wk"], arrays["bk"])
    queue = filled_queue(arrays["queue"].T, arrays["ptr"])
    move_towards(slow, fast, hyper["m"])
    names = ("x_q", "x_k") if "x_q" in arrays else ("x_1", "x_2")
    first, second = arrays[names[0]], arrays[names[1]]
    with torch.no_grad():
        keys = [torch.nn.functional.normalize(slow(x), dim=1) for x in (first, second)]
    directions = [(first, keys[1])] + ([(second, keys[0])] if hyper.get("symmetric") else [])
    loss = torch.stack(
        [
            contrastive_loss(fast(x), key, queue.keys, Plain(), temperature=hyper["T"], streaming=streaming)
            for x, key in directions
        ]
    ).sum()
    queue.push(torch.cat(keys) if hyper.get("symmetric") else keys[1])
    agrees_with_gradients(case, arrays, loss, wq=fast.weight, bq=fast.bias)
    agrees(case, slow.weight, arrays["wk_after"])
    agrees(case, slow.bias, arrays["bk_after"])
    agrees(case, queue.keys.T, arrays["queue_after"])
    assert queue.position == arrays["ptr_after"][0]


@both_ways
@pytest.mark.parametrize("case", golden_cases("cmc"))
def test_cmc(case: Case, streaming: bool) -> None:
    # Column 0 of idx is the sample itself; the others were drawn.
    arrays, hyper = golden_arrays(case), case["hyper"]
    views = dict(zip(("l", "ab"), leaves(arrays, "l", "ab"), strict=True))
    total = torch.zeros((), dtype=torch.float64)
    for view, other in (("l", "ab"), ("ab", "l")):
        entries = arrays[f"memory_{other}"][arrays["idx"]]
        options: dict[str, Any] = {"temperature": hyper["T"], "normalize": False, "streaming": streaming}
        loss = contrastive_loss(views[view], entries[:, 0], entries[:, 1:], Plain(), **options)
        agrees(case, loss, arrays[f"loss_{view}"])
        total = total + loss
    agrees_with_gradients(case, arrays, total, **views)
    for view in ("l", "ab"):
        entries = arrays[f"memory_{view}"]
        bank = Bank(len(entries), entries.shape[1], momentum=hyper["momentum"]).double()
        bank.entries.copy_(entries)
        bank.update(arrays["y"], arrays[view])
        agrees(case, bank.entries, arrays[f"memory_{view}_after"])


@both_ways
@pytest.mark.parametrize("case", golden_cases("jsd"))
def test_jensen_shannon(case: Case, streaming: bool) -> None:
    arrays, hyper = golden_arrays(case), case["hyper"]
    local, whole = leaves(arrays, "l_enc", "g_enc")
    if case["compat"]:
        correction = Hard(tau_plus=hyper["tau_plus"], beta=hyper["beta"])
        loss = local_global_loss(local, whole, arrays["batch"], correction, compat="hcl")
    else:
        # The reference leaves the constant -2 log 2 in.
        loss = local_global_loss(local, whole, arrays["batch"], Plain(), streaming=streaming) - 2 * math.log(2)
    agrees_with_gradients(case, arrays, loss, l=local, g=whole)


def filled_queue(keys: torch.Tensor, position: torch.Tensor) -> Queue:
    queue = Queue(len(keys))
    queue.push(keys)
    queue.position.copy_(position[0])
    return queue


def linear(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0]).double()
    layer.weight = nn.Parameter(weight.clone())
    layer.bias = nn.Parameter(bias.clone())
    return layer


def holder(values: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(len(values), 1, bias=False).double()
    layer.weight = nn.Parameter(values.clone()[None])
    return layer
