"""What an encoder has learned: its embeddings, and the probes that measure them."""

from collections.abc import Iterable, Mapping
from typing import Any

from pucl.evaluation.classifier import Classifier
from pucl.evaluation.clustering import CLUSTERING
from pucl.evaluation.fewshot import FEW_SHOT
from pucl.evaluation.folds import folded
from pucl.evaluation.knn import KNN, KNNClassifier
from pucl.evaluation.linear import LINEAR, LINEAR_REFERENCE, LinearClassifier, ReferenceLinearClassifier
from pucl.evaluation.monitor import Monitor
from pucl.evaluation.probe import Labelled, Measured, Number, Probe, ProbedSamples, measure, record_key, train_and_test
from pucl.evaluation.retrieval import RETRIEVAL
from pucl.evaluation.svm import SVM, SVM_SCALED, SVMResult, svm_on_splits

PROBES: dict[str, Probe] = {
    "retrieval": RETRIEVAL,
    "svm": SVM,
    "svm_scaled": SVM_SCALED,
    "linear": LINEAR,
    "linear-reference": LINEAR_REFERENCE,
    "knn": KNN,
    "clustering": CLUSTERING,
    "fewshot": FEW_SHOT,
}
"""All probes, in the order in which tables show them. The first probe that a run has leads its table."""


def known_numbers() -> dict[str, Number]:
    """What records may hold of the probes: numbers by their names in a record, in the order of tables."""
    return {record_key(name, key): number for name, probe in PROBES.items() for key, number in probe.numbers.items()}


def number_named(name: str) -> str:
    """The name in records of a number that has this name in tables, such as mAP; any other name is unchanged.

    Example:
        >>> number_named("map"), number_named("clustering_ari")
        ('retrieval', 'clustering_ari')
    """
    return next((key for key, number in known_numbers().items() if number.short.lower() == name.lower()), name)


def numbers_in(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of the numbers that some of these records have, in the order of tables."""
    present = set().union(*records)
    return [name for name in known_numbers() if name in present]


__all__ = [
    "PROBES",
    "Classifier",
    "KNNClassifier",
    "Labelled",
    "LinearClassifier",
    "Measured",
    "Monitor",
    "Number",
    "Probe",
    "ProbedSamples",
    "ReferenceLinearClassifier",
    "SVMResult",
    "folded",
    "known_numbers",
    "measure",
    "number_named",
    "numbers_in",
    "record_key",
    "svm_on_splits",
    "train_and_test",
]
