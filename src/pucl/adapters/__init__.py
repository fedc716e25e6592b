"""The losses behind the calls of other libraries, one library a file.

`MetricLearningLoss` is called like the losses of pytorch-metric-learning, `TwoTowerLoss` like those of open_clip.
`pucl.adapters.sentence_transformers` has losses for the trainer of that library; import it by name, as it imports the
library. lightly needs no adapter: its losses are called like those of `pucl.losses`.
"""

from pucl.adapters.metric_learning import MetricLearningLoss
from pucl.adapters.two_towers import TwoTowerLoss

__all__ = ["MetricLearningLoss", "TwoTowerLoss"]
