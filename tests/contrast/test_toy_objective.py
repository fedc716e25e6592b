"""A third objective in one file: a line in `OBJECTIVES`, and every part of the loss takes it."""

import pytest
import torch

from pucl import SupConLoss
from pucl.contrast.attraction import Classified
from pucl.contrast.averages import Averages
from pucl.contrast.correction import Correction
from pucl.contrast.objective import Floor, Tiling
from pucl.contrast.objectives import OBJECTIVES
from pucl.contrast.pairs import AttractingForm, Pairs
from pucl.corrections import Debiased, Hard, Plain, PointwiseTable
from pucl.functional import corrected_loss, pair_views
from pucl.shapes import Bool, Float, Tensor


class Squares:
    """g(u) = u^2, which no tile can sum: mean_j (1 - p_j) + max(E^-[u^2], 0)."""

    relative = False
    floors: tuple[str, ...] = ("auto",)
    forms: tuple[AttractingForm, ...] = ("sincere",)

    def average(
        self, logits: Float[Tensor, "anchor unlabelled"], log_weights: Float[Tensor, "anchor unlabelled"]
    ) -> Float[Tensor, " anchor"]:
        weights = log_weights.exp()
        return (logits.masked_fill(weights == 0, 0.0).square() * weights).sum(dim=1)

    def tiling(self, pairs: Pairs, correction: Correction) -> Tiling | None:
        del pairs, correction
        return None

    def losses(
        self,
        averages: Averages,
        odds: float | Float[Tensor, " row"],
        floor: Floor,
        *,
        stop_gradient: bool = False,
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        assert floor == 0.5  # What `auto_floor` said.
        del stop_gradient
        positive = averages.over_positives(torch.square)
        negatives = (1 + odds) * averages.unlabelled - odds * positive
        attracted = averages.over_positives(lambda logit: 1 - logit)
        return attracted + negatives.clamp_min(0), negatives <= 0

    def auto_floor(self, averages: Averages) -> Floor:
        del averages
        return 0.5

    def attracted(self, known: Classified, form: AttractingForm) -> Float[Tensor, " anchor"]:
        assert form == "sincere"
        return known.over_positives(1 - known.given, 1 - known.logits) + known.mean_over_others(known.logits.square())


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, without_shape_checks: None) -> None:
    monkeypatch.setitem(OBJECTIVES, "squares", Squares())


def views() -> list[Tensor]:
    torch.manual_seed(0)
    sample = torch.randn(6, 4, dtype=torch.float64)
    return [sample + torch.randn_like(sample) for _ in range(2)]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    "correction",
    [
        Plain(),
        Debiased(tau_plus=0.1),
        Hard(tau_plus=0.1, beta=0.7),
        PointwiseTable(table=torch.linspace(0, 0.9, 8, dtype=torch.float64), most=1.0),
    ],
    ids=["plain", "debiased", "hard", "table"],
)
def test_dense_and_streaming_are_loops(correction: Correction, streaming: bool) -> None:
    pairs = pair_views(views(), temperature=0.5)
    outcome = corrected_loss(pairs, correction, objective="squares", streaming=streaming)  # type: ignore[arg-type]
    comparison = pairs.comparison()
    log_weights = correction.log_weights(comparison)
    assert comparison.mask is not None
    for anchor, loss in enumerate(outcome.loss.tolist()):
        met = [k for k in range(len(pairs.key)) if comparison.mask[anchor, k]]
        weights = [float(log_weights[anchor, k].exp()) for k in met]
        average = sum(w * float(comparison.unlabelled[anchor, k]) ** 2 for w, k in zip(weights, met, strict=True))
        positive = float(comparison.positive[anchor, 0])
        odds = float(correction.odds)
        negatives = (1 + odds) * average / sum(weights) - odds * positive**2
        assert loss == pytest.approx(1 - positive + max(negatives, 0.0), rel=1e-12)
    assert outcome.floored < 0.5
    assert outcome.floor == 0.5

    def losses(*embeddings: Tensor) -> Tensor:
        pairs = pair_views(embeddings, temperature=0.5)
        return corrected_loss(pairs, correction, objective="squares", streaming=streaming).loss  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(losses, [view.requires_grad_() for view in views()])


@pytest.mark.parametrize("streaming", [False, True])
def test_known_classes_and_what_it_lacks(streaming: bool) -> None:
    labels = [0, 1, 2, 0, 1, 3]
    loss = SupConLoss(objective="squares", reduction="none", streaming=streaming)  # type: ignore[arg-type]
    found = loss(*views(), labels=torch.tensor(labels))
    whole = torch.nn.functional.normalize(torch.cat(views()), dim=1)
    logits, classes = (whole @ whole.T / 0.5).tolist(), labels * 2
    for anchor in range(12):
        same = [k for k in range(12) if classes[k] == classes[anchor] and k != anchor]
        others = [k for k in range(12) if classes[k] != classes[anchor]]
        expected = sum(1 - logits[anchor][k] for k in same) / len(same)
        expected += sum(logits[anchor][k] ** 2 for k in others) / len(others)
        assert float(found[anchor]) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="expected 'sincere' with the objective 'squares', got 'supcon'"):
        SupConLoss("supcon", objective="squares")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected objective 'infonce', got 'squares'"):
        corrected_loss(pair_views(views()), Plain(), objective="squares", floor="paper")  # type: ignore[arg-type]
