"""What an encoder has learned: its embeddings, and simple classifiers on top of them."""

from pucl.evaluation.embed import embed
from pucl.evaluation.probes import FullBatchLinearProbe, KNNProbe, LinearProbe, Probe

__all__ = ["FullBatchLinearProbe", "KNNProbe", "LinearProbe", "Probe", "embed"]
