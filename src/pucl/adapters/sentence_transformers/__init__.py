"""The losses of pucl in the trainer of sentence-transformers, 6.2 or later; see docs/sentence-transformers.md.

`RankingLoss` takes the place of its MultipleNegativesRankingLoss, `CachedRankingLoss` that of the cached form.
`CorrectionCallback` writes what a correction does to the trainer's logs, and ends its epochs.
"""

from pucl.data.errors import ExtraMissingError

try:
    from pucl.adapters.sentence_transformers.cached import CachedRankingLoss
    from pucl.adapters.sentence_transformers.callback import CorrectionCallback
    from pucl.adapters.sentence_transformers.ranking import Direction, Known, RankingLoss
except ImportError as error:
    package = "sentence-transformers, 6.2 or later and with what its trainer needs,"
    raise ExtraMissingError("a loss for its trainer", package, "ranking") from error

__all__ = ["CachedRankingLoss", "CorrectionCallback", "Direction", "Known", "RankingLoss"]
