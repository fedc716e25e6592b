"""Linear classifiers on frozen embeddings."""

import math
from collections.abc import Iterator
from functools import partial

import torch
from torch.nn import functional as F

from pucl.evaluation.classifier import Classifier, Features, Labels, check_test_set, check_training_set, mean_accuracy
from pucl.evaluation.probe import LEADING, Number, Probe
from pucl.shapes import Float, Int, Tensor

STRENGTHS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
"""L2 strengths among which `LinearClassifier` chooses."""

FOLDS = 3  # Folds of the cross-validation, each with about the same share of each class.
ITERATIONS = 100  # Most iterations of L-BFGS for each strength.
BATCH, WEIGHT_DECAY = 512, 1e-6  # Of the reference programs.
SEED = 0  # The same for every run, so that runs differ by their embeddings alone.


class LinearClassifier(Classifier):
    r"""Logistic regression, with the L2 strength chosen by cross-validation on the training set.

    Features are standardised by the mean and deviation of the training set. L-BFGS minimises

    .. math:: \frac1n \sum_i -\ln \mathrm{softmax}(W x_i + b)_{y_i} + \frac{\lambda}{2} \lVert W \rVert^2

    for each strength :math:`\lambda` on all folds but one. The strength with the highest accuracy on the folds left
    out is chosen (the strongest of equal ones), and the classifier is fitted once more, on the whole training set.

    Args:
        strengths: The :math:`\lambda` to choose from. With a single one there is no cross-validation.

    Attributes:
        strength: The :math:`\lambda` that `fit` chose.
        validation: Accuracy on the folds left out, by strength; empty if there is one strength only.
    """

    def __init__(self, *, strengths: tuple[float, ...] = STRENGTHS) -> None:
        if not strengths or min(strengths) < 0:
            raise ValueError(f"strengths are L2 penalties to choose from: expected one or more >= 0, got {strengths}")
        # Strongest first: each optimum is a good start for the next weaker strength, and the first of equals is chosen.
        self.strengths = tuple(sorted(strengths, reverse=True))

    def fit(self, features: Features, labels: Labels) -> "LinearClassifier":
        """Choose the strength by cross-validation, then learn from the whole training set."""
        x, y, self.classes = check_training_set(features, labels)
        count = len(self.classes)
        self.mean = x.mean(dim=0)
        deviation = x.std(dim=0, correction=0)
        # A constant feature is set to 0: its deviation is rounding error, and must not divide anything.
        self.deviation = torch.where(deviation > 1e-6 * self.mean.abs(), deviation, math.inf)
        x = (x - self.mean) / self.deviation
        self.validation: dict[float, float] = {}
        self.strength = self.strengths[0]
        if len(self.strengths) > 1:
            fold = _stratified_folds(y, FOLDS, SEED)
            right = dict.fromkeys(self.strengths, 0)
            for left_out in fold.unique().tolist():
                kept, held = fold != left_out, fold == left_out
                for strength, solution in _path(x[kept], y[kept], count, self.strengths):
                    right[strength] += int((_logits(x[held], solution).argmax(dim=1) == y[held]).sum())
            self.validation = {strength: hits / len(y) for strength, hits in right.items()}
            self.strength = max(self.strengths, key=lambda strength: right[strength])
        stronger = tuple(strength for strength in self.strengths if strength >= self.strength)
        *_, (_, self.solution) = _path(x, y, count, stronger)
        return self

    def predict(self, features: Features) -> Int[Tensor, " sample"]:
        """The class of each sample."""
        x = check_test_set(self, features, getattr(self, "solution", None), bias=1)
        return self.classes[_logits((x - self.mean) / self.deviation, self.solution).argmax(dim=1)]


class ReferenceLinearClassifier(Classifier):
    r"""The linear classifier of the reference programs: trained on frozen features by Adam.

    Minimises the cross entropy of :math:`\mathrm{softmax}(W x + b)` over shuffled mini-batches. Features are
    neither normalised nor standardised.

    Args:
        epochs: Passes over the training set.
        lr: Adam's learning rate.

    Note:
        The references (DCL, HCL) train it on augmented images, and put the frozen encoder's batch norm in training
        mode while they do. Here features are computed once, in evaluation mode and without augmentation.

        The 100 epochs are meant for 50,000 samples. With fewer than 10,000 samples the steps are too few to reach the
        optimum: the accuracy is several points too low at 2,000. Use `LinearClassifier`, or more epochs, there.
    """

    def __init__(self, *, epochs: int = 100, lr: float = 1e-3) -> None:
        if epochs < 1:
            raise ValueError(f"epochs are passes over the training set: expected at least 1, got {epochs}")
        self.epochs = epochs
        self.lr = lr

    def fit(self, features: Features, labels: Labels) -> "ReferenceLinearClassifier":
        """Learn from a training set."""
        x, y, self.classes = check_training_set(features, labels)
        generator = torch.Generator().manual_seed(SEED)
        bound = 1 / math.sqrt(x.shape[1])  # The first weights of torch.nn.Linear, drawn from a generator of our own.
        start = [torch.rand(n, generator=generator) for n in ((len(self.classes), x.shape[1]), (len(self.classes),))]
        weight, bias = ((2 * bound * r - bound).to(x).requires_grad_() for r in start)
        optimiser = torch.optim.Adam([weight, bias], lr=self.lr, weight_decay=WEIGHT_DECAY, fused=True)
        with torch.enable_grad():
            for _ in range(self.epochs):
                order = torch.randperm(len(x), generator=generator).to(x.device)
                for chosen in order.split(BATCH):
                    optimiser.zero_grad()
                    F.cross_entropy(F.linear(x[chosen], weight, bias), y[chosen]).backward()
                    optimiser.step()
        self.weight, self.bias = weight.detach(), bias.detach()
        return self

    def predict(self, features: Features) -> Int[Tensor, " sample"]:
        """The class of each sample."""
        x = check_test_set(self, features, getattr(self, "weight", None))
        return self.classes[F.linear(x, self.weight, self.bias).argmax(dim=1)]


def _path(
    x: Float[Tensor, "sample dim"], y: Int[Tensor, " sample"], classes: int, strengths: tuple[float, ...]
) -> Iterator[tuple[float, Float[Tensor, "classes dim_and_bias"]]]:
    """Yield the optimum for each strength, started from the optimum for the last one."""
    solution = x.new_zeros(classes, x.shape[1] + 1)
    for strength in strengths:
        solution = _minimise(x, y, solution, strength)
        yield strength, solution


def _minimise(
    x: Float[Tensor, "sample dim"],
    y: Int[Tensor, " sample"],
    start: Float[Tensor, "classes dim_and_bias"],
    strength: float,
) -> Float[Tensor, "classes dim_and_bias"]:
    """Fit logistic regression by L-BFGS, starting from a given solution."""
    solution = start.clone()
    # Tolerances for float32. With smaller ones the line search would follow rounding errors.
    optimiser = torch.optim.LBFGS(
        [solution],
        max_iter=ITERATIONS,
        tolerance_grad=1e-5,
        tolerance_change=1e-7,
        line_search_fn="strong_wolfe",
    )
    truth = F.one_hot(y, len(start)).to(x)

    def closure() -> Tensor:
        logits = _logits(x, solution)
        loss = F.cross_entropy(logits, y) + strength / 2 * solution[:, :-1].square().sum()
        # Computed by hand: two products, fewer than autograd makes, and no graph to keep.
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
    """The fold of each sample. Each class is put in random order; then samples go to the folds in turn."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)).to(y.device)
    dealt = order[y[order].argsort(stable=True)]
    fold = torch.empty_like(y)
    fold[dealt] = torch.arange(len(y), device=y.device) % folds
    return fold


LINEAR = Probe(
    about="accuracy of logistic regression, with the L2 strength chosen by cross-validation on the training set",
    numbers={LEADING: Number(name="linear classifier", short="linear")},
    measure=partial(mean_accuracy, make=LinearClassifier),
)

LINEAR_REFERENCE = Probe(
    about="the same, trained as in the reference programs (Adam, 100 epochs), for 10,000 training samples or more",
    numbers={LEADING: Number(name="linear classifier of the references", short="linear ref.")},
    measure=partial(mean_accuracy, make=ReferenceLinearClassifier),
    by_default=False,
)
