"""Nearest neighbours as a classifier on frozen embeddings."""

from functools import partial

import torch
from torch.nn import functional as F

from pucl.evaluation.classifier import Classifier, Features, Labels, check_test_set, check_training_set, mean_accuracy
from pucl.evaluation.probe import LEADING, Measured, Number, Probe, ProbedSamples
from pucl.shapes import Float, Int, Tensor

BLOCK = 2**24  # Similarities that are held at a time: 64 megabytes of float32.


class KNNClassifier(Classifier):
    r"""The vote of the k nearest training samples, weighted by their similarity.

    With the cosines s between a sample and the training set, and K the k largest of them, the score of class y is

    .. math:: \mathrm{score}(y) = \sum_{i \in K,\, y_i = y} e^{s_i / t}.

    Args:
        k: Number of neighbours that vote; a smaller training set votes as a whole.
        temperature: t > 0. A smaller t gives the nearest neighbours more weight.

    Reference:
        The monitor of the programs of DCL and HCL (k = 200, t = .5); MoCo uses t = .1.
    """

    def __init__(self, k: int = 200, temperature: float = 0.5) -> None:
        if k < 1:
            raise ValueError(f"k is the number of neighbours that vote: expected at least 1, got {k}")
        if not temperature > 0:
            raise ValueError(f"temperature divides similarities: expected temperature > 0, got {temperature}")
        self.k = k
        self.temperature = temperature

    def fit(self, features: Features, labels: Labels) -> "KNNClassifier":
        """Store the training set as unit vectors."""
        x, self.labels, self.classes = check_training_set(features, labels)
        self.bank = F.normalize(x, dim=1)
        return self

    def predict(self, features: Features) -> Int[Tensor, " sample"]:
        """The class with the highest score; the first of equal ones."""
        best = self.scores(features).argmax(dim=1)
        return self.classes[best]

    @torch.no_grad()
    def scores(self, features: Features) -> Float[Tensor, "sample classes"]:
        """The score of each class, divided by the weight of the nearest neighbour, which may overflow.

        Columns are in the order of `classes`.
        """
        x = F.normalize(check_test_set(self, features, getattr(self, "bank", None)), dim=1)
        k = min(self.k, len(self.bank))
        scores = []
        for block in x.split(max(1, BLOCK // len(self.bank))):
            nearest, indices = (block @ self.bank.T).topk(k, dim=1)
            logits = nearest / self.temperature
            weights = (logits - logits[:, :1]).exp()
            empty = weights.new_zeros(len(block), len(self.classes))
            scores.append(empty.scatter_add_(1, self.labels[indices], weights))
        return torch.cat(scores)


def _measure(samples: ProbedSamples, *, k: int = 200) -> Measured:
    return mean_accuracy(samples, partial(KNNClassifier, k=k))


KNN = Probe(
    about="accuracy of the weighted vote of the nearest training samples",
    numbers={LEADING: Number(name="nearest neighbours", short="kNN")},
    measure=_measure,
    monitored=True,
)
