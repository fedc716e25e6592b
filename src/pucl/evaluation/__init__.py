"""What an encoder has learned: its embeddings, and simple classifiers on top of them."""

from pucl.evaluation.embed import embed
from pucl.evaluation.folds import cross_validated
from pucl.evaluation.monitor import Monitor
from pucl.evaluation.probes import FullBatchLinearProbe, KNNProbe, LinearProbe, Probe
from pucl.evaluation.scoring import accuracies
from pucl.evaluation.svm import SVMResult, cross_validated_svm

__all__ = [
    "FullBatchLinearProbe",
    "KNNProbe",
    "LinearProbe",
    "Monitor",
    "Probe",
    "SVMResult",
    "accuracies",
    "cross_validated",
    "cross_validated_svm",
    "embed",
]
