"""Few labels: a classifier that knows 1, 5 or 10 samples of each class."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from pucl.evaluation.classifier import check_features
from pucl.evaluation.probe import LEADING, Measured, Number, Probe, ProbedSamples, Split
from pucl.shapes import Float, Tensor

SHOTS = {"1": 1, "5": 5, LEADING: 10}
"""By the key of the number: labels a class."""

DRAWS = 20  # Random choices of the labelled samples. The accuracy is the mean over all of them.


def few_shot_accuracy(split: Split, shots: int, draws: int, seed: int) -> float:
    r"""The accuracy of the nearest class mean, learned from a few samples of each class; the mean over draws.

    With unit vectors u, and the samples :math:`K_y` of class y that are drawn, a test sample x has the class

    .. math:: \arg\max_y \cos\Bigl(u_x, \sum_{i \in K_y} u_i\Bigr).

    It is not logistic regression, since that needs an L2 strength, and a few labels are too few to choose one by
    cross-validation. The nearest class mean has no setting: the number depends on the embeddings alone.

    Args:
        split: Samples are drawn from its training set, and tested on its test set.
        shots: Samples of each class; a smaller class gives all that it has.
        draws: Number of draws.
        seed: Seed of the draws. The same seed draws the same samples, whatever the features.
    """
    train, test = (F.normalize(check_features(part.features), dim=1) for part in split)
    classes, learned = np.unique(split.train.labels, return_inverse=True)
    truth = np.searchsorted(classes, split.test.labels)
    known = np.isin(split.test.labels, classes)
    accuracies = []
    for draw in range(draws):
        drawn = _drawn(learned, shots, np.random.default_rng((seed, draw)))
        means = _class_means(train, learned, drawn, len(classes))
        predicted = (test @ means.T).argmax(dim=1).cpu().numpy()
        accuracies.append(np.mean(known & (predicted == truth)))
    return float(np.mean(accuracies))


def _drawn(classes: NDArray[np.integer], shots: int, generator: np.random.Generator) -> NDArray[np.integer]:
    """Indices of up to `shots` random samples of each class."""
    shuffled = generator.permutation(len(classes))
    order = shuffled[np.argsort(classes[shuffled], kind="stable")]  # Class after class, each in random order.
    sizes = np.bincount(classes)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen: NDArray[np.integer] = order[rank < shots]
    return chosen


def _class_means(
    units: Float[Tensor, "sample dim"], classes: NDArray[np.integer], drawn: NDArray[np.integer], count: int
) -> Float[Tensor, "classes dim"]:
    """The direction of the mean of each class."""
    index = torch.from_numpy(classes[drawn]).to(units.device)
    sums = units.new_zeros(count, units.shape[1]).index_add_(0, index, units[torch.from_numpy(drawn).to(units.device)])
    return F.normalize(sums, dim=1)


def _measure(samples: ProbedSamples) -> Measured:
    """The mean over the splits; all splits together have about `DRAWS` draws."""
    each = -(-DRAWS // len(samples.splits))
    numbers = {
        key: float(np.mean([few_shot_accuracy(split, shots, each, samples.seed) for split in samples.splits]))
        for key, shots in SHOTS.items()
    }
    return Measured(numbers=numbers)


FEW_SHOT = Probe(
    about="accuracy of the nearest class mean, learned from 10, 5 or 1 labelled samples of each class",
    numbers={
        LEADING: Number(name="nearest class mean with 10 labels a class", short="10 labels"),
        "5": Number(name="nearest class mean with 5 labels a class", short="5 labels"),
        "1": Number(name="nearest class mean with 1 label a class", short="1 label"),
    },
    measure=_measure,
    monitored=True,
)
