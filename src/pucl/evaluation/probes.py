"""How much simple classifiers make of frozen embeddings: linear ones, and the nearest neighbours.

All are used alike: ``probe.fit(features, labels).score(features, labels)``. Features and labels are arrays or tensors;
labels are whole numbers from 0, not necessarily all of them. Nothing is ever chosen by what `score` is given.
"""

import math
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from pucl.shapes import Float, Int, Tensor

Features = NDArray[np.floating] | Tensor
"""Embeddings, [sample, dim]."""

Labels = NDArray[np.integer] | Tensor
"""The class of each sample, [sample]: 0, 1, 2, ..."""

STRENGTHS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
"""L2 strengths among which `FullBatchLinearProbe` chooses, strongest first."""

BLOCK = 2**24  # Similarities that are held at a time: 64 megabytes of float32.


@runtime_checkable
class Probe(Protocol):
    """A classifier on frozen embeddings."""

    def fit(self, features: Features, labels: Labels) -> "Probe":
        """Learn from a training set."""
        ...

    def predict(self, features: Features) -> Int[Tensor, " sample"]:
        """The class of each sample."""
        ...

    def score(self, features: Features, labels: Labels) -> float:
        """The accuracy on a test set, 0 to 1."""
        ...


class LinearProbe:
    r"""The references' linear evaluation: one linear map with bias, trained on frozen features by Adam.

    Minimises the cross entropy of :math:`\mathrm{softmax}(W x + b)` over shuffled mini-batches. Features are taken as
    they are, neither normalised nor standardised.

    Args:
        epochs: Passes over the training set.
        batch_size: Samples a step.
        lr: Adam's step size.
        weight_decay: Added to the gradient as :math:`\lambda w`, to bias and weights alike.
        seed: Of the first weights and of the order of samples. The same seed gives the same classifier.

    Note:
        The references (DCL, HCL) train it on augmented images, and put the frozen encoder's batch norm in training
        mode while they do. Here features are computed once, in evaluation mode and without augmentation.

        Its 100 epochs are meant for 50,000 samples. On fewer than 10,000 they are so few steps that it stops short of
        its optimum, by several hundredths at 2,000; there use `FullBatchLinearProbe`, or more epochs.
    """

    def __init__(
        self,
        *,
        epochs: int = 100,
        batch_size: int = 512,
        lr: float = 1e-3,
        weight_decay: float = 1e-6,
        seed: int = 0,
    ) -> None:
        if epochs < 1 or batch_size < 1:
            raise ValueError(
                f"a probe makes epochs over batches: expected at least 1 of each, got {epochs} epochs of batches "
                f"of {batch_size}"
            )
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.seed = seed

    def fit(self, features: Features, labels: Labels) -> "LinearProbe":
        """Learn from a training set."""
        x, y, self.classes = _training_set(features, labels)
        generator = torch.Generator().manual_seed(self.seed)
        bound = 1 / math.sqrt(x.shape[1])  # As torch.nn.Linear starts, but from a generator of its own.
        start = [torch.rand(n, generator=generator) for n in ((len(self.classes), x.shape[1]), (len(self.classes),))]
        weight, bias = ((2 * bound * r - bound).to(x).requires_grad_() for r in start)
        optimiser = torch.optim.Adam([weight, bias], lr=self.lr, weight_decay=self.weight_decay, fused=True)
        with torch.enable_grad():
            for _ in range(self.epochs):
                order = torch.randperm(len(x), generator=generator).to(x.device)
                for chosen in order.split(self.batch_size):
                    optimiser.zero_grad()
                    F.cross_entropy(F.linear(x[chosen], weight, bias), y[chosen]).backward()
                    optimiser.step()
        self.weight, self.bias = weight.detach(), bias.detach()
        return self

    def predict(self, features: Features) -> Int[Tensor, " sample"]:
        """The class of each sample."""
        x = _test_set(self, features, getattr(self, "weight", None))
        return self.classes[F.linear(x, self.weight, self.bias).argmax(dim=1)]

    def score(self, features: Features, labels: Labels) -> float:
        """The accuracy on a test set, 0 to 1; a class that the training set has not is never right."""
        return _accuracy(self, features, labels)


class FullBatchLinearProbe:
    r"""The same classifier to its optimum: logistic regression by L-BFGS, regularised as cross-validation says.

    With features standardised by mean and deviation of the training set, it minimises

    .. math:: \frac1n \sum_i -\ln \mathrm{softmax}(W x_i + b)_{y_i} + \frac{\lambda}{2} \lVert W \rVert^2

    for each of the strengths :math:`\lambda`, on all folds but one, and takes the one that is most often right on the
    fold left out (of equals the strongest); then once more on the whole training set. Has no step size to choose.

    Args:
        strengths: The :math:`\lambda` to choose from. A single one is taken without cross-validation.
        folds: Parts of the training set, each with about the same share of each class.
        iterations: Of L-BFGS, at most, for each strength.
        seed: Of the folds. The same seed gives the same classifier.

    Attributes:
        strength: The :math:`\lambda` that was chosen, once fitted.
        validation: Accuracy on the folds left out, by strength; empty where there was nothing to choose.
    """

    def __init__(
        self,
        *,
        strengths: tuple[float, ...] = STRENGTHS,
        folds: int = 3,
        iterations: int = 100,
        seed: int = 0,
    ) -> None:
        if not strengths or min(strengths) < 0:
            raise ValueError(f"strengths are L2 penalties to choose from: expected one or more >= 0, got {strengths}")
        if folds < 2 or iterations < 1:
            raise ValueError(
                f"cross-validation leaves one of the folds out: expected at least 2 folds and 1 iteration, "
                f"got {folds} and {iterations}"
            )
        # Strongest first: each optimum is a good start for the next weaker one, and of equals the first is taken.
        self.strengths = tuple(sorted(strengths, reverse=True))
        self.folds = folds
        self.iterations = iterations
        self.seed = seed

    def fit(self, features: Features, labels: Labels) -> "FullBatchLinearProbe":
        """Choose the strength inside a training set, then learn from all of it."""
        x, y, self.classes = _training_set(features, labels)
        count = len(self.classes)
        self.mean = x.mean(dim=0)
        deviation = x.std(dim=0, correction=0)
        # A feature that never changes says nothing, and would be noise divided by nothing.
        self.deviation = torch.where(deviation > 1e-6 * self.mean.abs(), deviation, math.inf)
        x = (x - self.mean) / self.deviation
        self.validation: dict[float, float] = {}
        self.strength = self.strengths[0]
        if len(self.strengths) > 1:
            fold = _stratified_folds(y, self.folds, self.seed)
            right = dict.fromkeys(self.strengths, 0)
            for left_out in fold.unique().tolist():
                kept, held = fold != left_out, fold == left_out
                if not kept.any():
                    raise ValueError("cross-validation needs two samples or more of some class to choose a strength")
                for strength, solution in self._path(x[kept], y[kept], count, self.strengths):
                    right[strength] += int((_logits(x[held], solution).argmax(dim=1) == y[held]).sum())
            self.validation = {strength: hits / len(y) for strength, hits in right.items()}
            self.strength = max(self.strengths, key=lambda strength: right[strength])
        stronger = tuple(strength for strength in self.strengths if strength >= self.strength)
        *_, (_, self.solution) = self._path(x, y, count, stronger)
        return self

    def _path(
        self, x: Float[Tensor, "sample dim"], y: Int[Tensor, " sample"], classes: int, strengths: tuple[float, ...]
    ) -> Iterator[tuple[float, Float[Tensor, "classes dim_and_bias"]]]:
        """The optimum for one strength after the other, each from where the last one ended."""
        solution = x.new_zeros(classes, x.shape[1] + 1)
        for strength in strengths:
            solution = _minimise(x, y, solution, strength, self.iterations)
            yield strength, solution

    def predict(self, features: Features) -> Int[Tensor, " sample"]:
        """The class of each sample."""
        x = _test_set(self, features, getattr(self, "solution", None), bias=1)
        return self.classes[_logits((x - self.mean) / self.deviation, self.solution).argmax(dim=1)]

    def score(self, features: Features, labels: Labels) -> float:
        """The accuracy on a test set, 0 to 1; a class that the training set has not is never right."""
        return _accuracy(self, features, labels)


class KNNProbe:
    r"""The vote of the k nearest training samples, each with the weight of its similarity.

    For class y, with cosines s between a sample and the training set, and K the k largest of them,

    .. math:: \mathrm{score}(y) = \sum_{i \in K,\, y_i = y} e^{s_i / t}.

    Args:
        k: Neighbours that vote. Where the training set is smaller, all of it votes.
        temperature: t > 0; the smaller, the more the nearest decide.

    Reference:
        The monitor of the DCL and HCL programs (k = 200, t = .5); MoCo's has t = .1.
    """

    def __init__(self, k: int = 200, temperature: float = 0.5) -> None:
        if k < 1:
            raise ValueError(f"k is how many neighbours vote: expected at least 1, got {k}")
        if not temperature > 0:
            raise ValueError(f"temperature divides similarities: expected temperature > 0, got {temperature}")
        self.k = k
        self.temperature = temperature

    def fit(self, features: Features, labels: Labels) -> "KNNProbe":
        """Remember a training set, as unit vectors."""
        x, self.labels, self.classes = _training_set(features, labels)
        self.bank = F.normalize(x, dim=1)
        return self

    def scores(self, features: Features) -> Float[Tensor, "sample classes"]:
        """The votes for each class; columns are in the order of `classes`."""
        votes, scale = self._votes(features)
        return votes * scale.exp()[:, None]

    def predict(self, features: Features) -> Int[Tensor, " sample"]:
        """The class with the most votes; of equals the first."""
        votes, _ = self._votes(features)
        return self.classes[votes.argmax(dim=1)]

    def score(self, features: Features, labels: Labels) -> float:
        """The accuracy on a test set, 0 to 1; a class that the training set has not is never right."""
        return _accuracy(self, features, labels)

    @torch.no_grad()
    def _votes(self, features: Features) -> tuple[Float[Tensor, "sample classes"], Float[Tensor, " sample"]]:
        """Votes as multiples of the nearest neighbour's weight, which at a low temperature overflows, and its log."""
        x = F.normalize(_test_set(self, features, getattr(self, "bank", None)), dim=1)
        k = min(self.k, len(self.bank))
        votes, scale = [], []
        for block in x.split(max(1, BLOCK // len(self.bank))):
            nearest, places = (block @ self.bank.T).topk(k, dim=1)
            logits = nearest / self.temperature
            weights = (logits - logits[:, :1]).exp()
            votes.append(weights.new_zeros(len(block), len(self.classes)).scatter_add_(1, self.labels[places], weights))
            scale.append(logits[:, 0])
        return torch.cat(votes), torch.cat(scale)


def _minimise(
    x: Float[Tensor, "sample dim"],
    y: Int[Tensor, " sample"],
    start: Float[Tensor, "classes dim_and_bias"],
    strength: float,
    iterations: int,
) -> Float[Tensor, "classes dim_and_bias"]:
    """Logistic regression from a start."""
    solution = start.clone()
    # Tolerances of float32: below them, the line search follows rounding errors.
    optimiser = torch.optim.LBFGS(
        [solution],
        max_iter=iterations,
        tolerance_grad=1e-5,
        tolerance_change=1e-7,
        line_search_fn="strong_wolfe",
    )
    truth = F.one_hot(y, len(start)).to(x)

    def closure() -> Tensor:
        logits = _logits(x, solution)
        loss = F.cross_entropy(logits, y) + strength / 2 * solution[:, :-1].square().sum()
        # The gradient by hand is two products where autograd would make more, and keeps no graph.
        error = (logits.softmax(dim=1) - truth) / len(x)
        solution.grad = torch.cat([error.T @ x + strength * solution[:, :-1], error.sum(dim=0)[:, None]], dim=1)
        return loss

    optimiser.step(closure)
    return solution


def _logits(
    x: Float[Tensor, "sample dim"], solution: Float[Tensor, "classes dim_and_bias"]
) -> Float[Tensor, "sample classes"]:
    return F.linear(x, solution[:, :-1], solution[:, -1])


def _stratified_folds(y: Int[Tensor, " sample"], folds: int, seed: int) -> Int[Tensor, " sample"]:
    """The fold of each sample: a random order within each class, dealt out class after class."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)).to(y.device)
    dealt = order[y[order].argsort(stable=True)]
    fold = torch.empty_like(y)
    fold[dealt] = torch.arange(len(y), device=y.device) % folds
    return fold


def _to_tensor(values: Features | Labels) -> Tensor:
    """A tensor on the same memory where that is allowed; torch takes no array that is read-only."""
    if isinstance(values, Tensor):
        return values.detach()
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))


def _as_features(features: Features) -> Float[Tensor, "sample dim"]:
    x = _to_tensor(features)
    if x.ndim != 2 or x.numel() == 0:
        raise ValueError(
            f"features are one vector for each sample: expected the shape [sample, dim], neither of them 0, "
            f"got {list(x.shape)}"
        )
    if x.dtype != torch.float64:
        x = x.float()
    wrong = int((~x.isfinite()).any(dim=1).sum())
    if wrong:
        raise ValueError(
            f"features are finite numbers: got NaN or infinity in {wrong} of {len(x)} samples, "
            f"as an encoder gives whose training diverged"
        )
    return x


def _as_labels(labels: Labels, samples: int, device: torch.device) -> Int[Tensor, " sample"]:
    y = _to_tensor(labels)
    if y.ndim != 1 or y.is_floating_point() or y.dtype == torch.bool:
        raise ValueError(
            f"labels are the number of each sample's class: expected integers of shape [sample], "
            f"got {y.dtype} of shape {list(y.shape)}"
        )
    if len(y) != samples:
        raise ValueError(
            f"labels belong to features one by one: expected {samples} as there are features, got {len(y)}"
        )
    y = y.to(device, torch.int64)
    if bool((y < 0).any()):
        raise ValueError(
            f"labels are the number of each sample's class: expected 0 or more, got {int(y.min())} "
            f"(-1 often marks samples without a label: leave them out)"
        )
    return y


def _training_set(
    features: Features, labels: Labels
) -> tuple[Float[Tensor, "sample dim"], Int[Tensor, " sample"], Int[Tensor, " classes"]]:
    """Features, the place of each label among the classes, and the classes."""
    x = _as_features(features)
    y = _as_labels(labels, len(x), x.device)
    classes, places = y.unique(return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"a probe tells classes apart: expected labels of at least 2, got only class {int(classes[0])}"
        )
    return x, places, classes


def _test_set(probe: Probe, features: Features, fitted: Tensor | None, bias: int = 0) -> Float[Tensor, "sample dim"]:
    """Features as the probe was fitted with; `fitted` has their dimension, and that of a bias, as its last axis."""
    name = type(probe).__name__
    if fitted is None:
        raise RuntimeError(f"{name} has learned nothing yet: call fit first")
    x, dim = _as_features(features), fitted.shape[1] - bias
    if x.shape[1] != dim:
        raise ValueError(f"features go to a {name} fitted with dimension {dim}: expected the same, got {x.shape[1]}")
    return x.to(fitted)


def _accuracy(probe: Probe, features: Features, labels: Labels) -> float:
    predicted = probe.predict(features)
    truth = _as_labels(labels, len(predicted), predicted.device)
    return float((predicted == truth).double().mean())
