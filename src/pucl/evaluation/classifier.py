"""What classifiers on frozen embeddings have in common.

All are used alike: ``classifier.fit(features, labels).score(features, labels)``. Features and labels are arrays or
tensors. Labels are integers from 0; numbers may be skipped.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.evaluation.probe import LEADING, Measured, ProbedSamples
from pucl.shapes import Float, Int, Tensor

Features = NDArray[np.floating] | Tensor
"""Embeddings, [sample, dim]."""

Labels = NDArray[np.integer] | Tensor
"""The class of each sample, [sample]: 0, 1, 2, ..."""


class Classifier:
    """Base class of classifiers on frozen embeddings. They make all their choices inside the training set."""

    def fit(self, features: Features, labels: Labels) -> "Classifier":
        """Learn from a training set."""
        raise NotImplementedError

    def predict(self, features: Features) -> Int[Tensor, " sample"]:
        """The class of each sample."""
        raise NotImplementedError

    def score(self, features: Features, labels: Labels) -> float:
        """The accuracy on a test set, 0 to 1. A sample of a class that was not learned counts as an error."""
        predicted = self.predict(features)
        truth = as_labels(labels, len(predicted), predicted.device)
        return float((predicted == truth).double().mean())


def mean_accuracy(samples: ProbedSamples, make: Callable[[], Classifier]) -> Measured:
    """The accuracy of a new classifier on each split, and the mean over the splits."""
    accuracies = [make().fit(*split.train).score(*split.test) for split in samples.splits]
    return over_splits(accuracies)


def over_splits(accuracies: list[float]) -> Measured:
    """The mean over splits, with the accuracy on each of them in the details."""
    details = {"folds": accuracies} if len(accuracies) > 1 else {}
    return Measured(numbers={LEADING: float(np.mean(accuracies))}, details=details)


def _to_tensor(values: Features | Labels) -> Tensor:
    """A tensor that shares the memory where torch allows it; torch takes no read-only array."""
    if isinstance(values, Tensor):
        return values.detach()
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))


def check_features(features: Features) -> Float[Tensor, "sample dim"]:
    """Features as a tensor, which may share their memory.

    Raises:
        ValueError: If the shape is not [sample, dim], or a feature is not finite.
    """
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
            f"features are finite numbers: got NaN or infinity in {wrong} of {len(x)} samples; the training of the "
            f"encoder may have diverged"
        )
    return x


def as_labels(labels: Labels, samples: int, device: torch.device) -> Int[Tensor, " sample"]:
    """Labels as a tensor on the device.

    Raises:
        ValueError: If these are not integers >= 0, one for each sample.
    """
    y = _to_tensor(labels)
    if y.ndim != 1 or y.is_floating_point() or y.dtype == torch.bool:
        raise ValueError(
            f"labels are the number of each sample's class: expected integers of shape [sample], "
            f"got {y.dtype} of shape {list(y.shape)}"
        )
    if len(y) != samples:
        raise ValueError(f"every sample has one label: expected {samples} labels, got {len(y)}")
    y = y.to(device, torch.int64)
    if bool((y < 0).any()):
        raise ValueError(
            f"labels are the number of each sample's class: expected 0 or more, got {int(y.min())} "
            f"(-1 often marks samples without a label: leave them out)"
        )
    return y


def check_training_set(
    features: Features, labels: Labels
) -> tuple[Float[Tensor, "sample dim"], Int[Tensor, " sample"], Int[Tensor, " classes"]]:
    """Features, the index of each label among the classes, and the classes.

    Raises:
        ValueError: If features or labels are wrong, or there is one class only.
    """
    x = check_features(features)
    y = as_labels(labels, len(x), x.device)
    classes, indices = y.unique(return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"a classifier separates classes: expected labels of at least 2 classes, got only class {int(classes[0])}"
        )
    return x, indices, classes


def check_test_set(
    classifier: Classifier, features: Features, fitted: Tensor | None, bias: int = 0
) -> Float[Tensor, "sample dim"]:
    """Features with the type and device of the training set.

    Args:
        classifier: The classifier, for error messages.
        features: The features to test with.
        fitted: A tensor of the classifier, [any, dim + bias]; None before `fit`.
        bias: 1 if that tensor holds a bias too.
    """
    name = type(classifier).__name__
    if fitted is None:
        raise RuntimeError(f"{name} has learned nothing yet: call fit first")
    x, dim = check_features(features), fitted.shape[1] - bias
    if x.shape[1] != dim:
        raise ValueError(f"a {name} was fitted to features of dimension {dim}: expected the same, got {x.shape[1]}")
    return x.to(fitted)
