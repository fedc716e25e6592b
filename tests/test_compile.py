"""torch.compile around a training step."""

import subprocess
import sys

import pytest

# In a process of its own, since the shape checks of the tests are not for a compiler to see.
PROGRAM = """
import sys, warnings, torch, pucl
warnings.simplefilter("error", pucl.FlooredWarning)
torch.set_num_threads(1)
name, backend, bank = sys.argv[1], sys.argv[3], int(sys.argv[4])
streaming, whole = sys.argv[2] == "True", sys.argv[5] == "True"
known = {"groups": torch.tensor([0, 1, 2, 0, -1, 3, 2, 4, 0, -1])} if sys.argv[6] == "True" else {}

def run(compiled):
    torch.manual_seed(0)
    encoder = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8)).double()
    loss = getattr(pucl, name)(temperature=0.5, streaming=streaming, memory_bank_size=bank)
    optimiser = torch.optim.SGD(encoder.parameters(), lr=0.1)
    def forward(x0, x1):
        return loss(encoder(x0), encoder(x1), **known)
    step = torch.compile(forward, backend=backend, fullgraph=whole) if compiled else forward
    values = []
    for _ in range(6):
        x = torch.randn(10, 12, dtype=torch.float64)
        optimiser.zero_grad()
        value = step(x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x))
        value.backward()
        optimiser.step()
        values.append(value.item())
    return values, [p.detach() for p in encoder.parameters()]

(eager, weights), (compiled, compiled_weights) = run(False), run(True)
assert len(set(eager)) == 6, eager
torch.testing.assert_close(compiled, eager, rtol=1e-9, atol=1e-11)
for one, other in zip(weights, compiled_weights):
    torch.testing.assert_close(other, one, rtol=1e-8, atol=1e-10)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "streaming", "backend", "bank", "whole", "grouped"),
    [
        ("PUCLLoss", False, "inductor", 0, True, False),
        ("PUCLLoss", True, "inductor", 0, True, False),
        ("HardLoss", True, "aot_eager", 0, True, False),
        ("RingLoss", False, "aot_eager", 0, True, False),
        ("RingLoss", True, "aot_eager", 0, False, False),
        ("PUCLLoss", True, "aot_eager", 24, False, False),
        # Groups interrupt a compiled step: how many mates an anchor has is not known before.
        ("PUCLLoss", False, "aot_eager", 0, False, True),
        ("PUCLLoss", True, "aot_eager", 0, False, True),
    ],
)
def test_a_compiled_step_is_the_step(
    name: str, streaming: bool, backend: str, bank: int, whole: bool, grouped: bool
) -> None:
    arguments = [name, *map(str, (streaming, backend, bank, whole, grouped))]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


GRAPHS = """
import torch
from dataclasses import replace
from pucl.contrast.loss import outcome_of
from pucl.contrast.pairing import pair_local_global
from pucl.corrections import Hard
torch.set_num_threads(1)
graph_of = torch.tensor([0, 0, 1, 1, 1, 3])  # The third graph has no node here.
for temperature, streaming, beta in ((None, False, 0.0), (0.5, False, 0.0), (None, True, 0.0), (None, True, 0.5)):
    def loss(local, whole):
        pairs = pair_local_global(local, whole, graph_of, temperature=temperature)
        pairs = pairs if streaming else replace(pairs, group=graph_of)
        objective = "jensen_shannon" if temperature is None else "infonce"
        correction = Hard(tau_plus=0.3, beta=beta)
        return outcome_of(pairs, correction, objective=objective, streaming=streaming).loss.mean()
    outcomes = []
    for step in (loss, torch.compile(loss, backend="aot_eager", fullgraph=beta == 0)):
        torch.manual_seed(0)
        local, whole = (torch.randn(n, 5, dtype=torch.float64, requires_grad=True) for n in (6, 4))
        value = step(local, whole)
        outcomes.append((value.detach(), *torch.autograd.grad(value, [local, whole])))
    torch.testing.assert_close(outcomes[1], outcomes[0], rtol=1e-10, atol=1e-12)
"""


@pytest.mark.slow
def test_a_compiled_loss_of_nodes_and_graphs_is_the_loss() -> None:
    """Of groups from a matrix, and of nodes by streaming. A tilt reads the size of the scores, which interrupts it."""
    done = subprocess.run([sys.executable, "-c", GRAPHS], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr[-3000:]
