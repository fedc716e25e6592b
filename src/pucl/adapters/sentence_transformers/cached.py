"""The cached form of the ranking loss: large batches in the memory of small ones."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.gradcache import CachedLossMixin, has_static_embedding_input

from pucl.adapters.sentence_transformers.ranking import Direction, Known, RankingLoss, two_or_more
from pucl.contrast.correction import Correction
from pucl.contrast.objective import Floor
from pucl.shapes import Float, Tensor


class CachedRankingLoss(CachedLossMixin, RankingLoss):  # type: ignore[misc]  # The library is not typed for mypy.
    """`RankingLoss` of large batches in the memory of small ones, in place of CachedMultipleNegativesRankingLoss.

    Texts are embedded in mini-batches without keeping what the backward pass needs. The loss of the whole batch gives
    the gradient of every embedding. Then each mini-batch is embedded again, with the same random numbers, and its
    gradient is passed on. Loss and gradients are those of `RankingLoss`.

    Args:
        model, ..., samples: See `RankingLoss`.
        mini_batch_size: Texts that are embedded at once.
        mini_batch_num_tokens: Fill mini-batches up to this number of tokens instead. None (default): by texts.
        show_progress_bar: Show the progress over mini-batches.

    Reference:
        Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup" (GradCache), 2021.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        correction: str | Correction | None = None,
        scale: float = 20.0,
        *,
        mini_batch_size: int = 32,
        mini_batch_num_tokens: int | None = None,
        gather_across_devices: bool = False,
        directions: Sequence[Direction] = ("query_to_doc",),
        groups: Sequence[Known] = ("texts",),
        attract: bool = True,
        floor: Floor = "auto",
        streaming: bool | None = None,
        samples: int | None = None,
        show_progress_bar: bool = False,
    ) -> None:
        super().__init__(
            model,
            correction,
            scale,
            gather_across_devices=gather_across_devices,
            directions=directions,
            groups=groups,
            attract=attract,
            floor=floor,
            streaming=streaming,
            samples=samples,
        )
        for name, size in (("mini_batch_size", mini_batch_size), ("mini_batch_num_tokens", mini_batch_num_tokens)):
            if size is not None and size < 1:
                raise ValueError(f"{name} is how much is embedded at once: expected at least 1, got {size}")
        if has_static_embedding_input(model):
            raise ValueError(
                "a model of static embeddings keeps nothing that could be cached: expected a transformer, got one with "
                "StaticEmbedding; use RankingLoss"
            )
        self.mini_batch_size = mini_batch_size
        self.mini_batch_num_tokens = mini_batch_num_tokens
        self.show_progress_bar = show_progress_bar
        self._numbers: Tensor | None = None

    def forward(
        self, sentence_features: Iterable[Mapping[str, Any]], labels: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """The loss of a batch; see `RankingLoss.forward`. Its backward pass embeds all texts again."""
        features = two_or_more(sentence_features)
        self._numbers = self._texts(features)
        loss: Tensor = CachedLossMixin.forward_cached(self, features, labels)
        return loss

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Float[Tensor, ""]:
        """The loss of embeddings in mini-batches; with `with_backward` they get their gradients. The library calls it.

        Args:
            reps: The mini-batches of each column.
            labels: The column ``label`` of the data, if it has one.
            with_backward: Whether to pass the gradient back to the embeddings.
        """
        loss = self.compute_loss_from_embeddings([torch.cat(column) for column in reps], labels, self._numbers)
        if not with_backward:
            return loss
        loss.backward()
        return loss.detach()

    def get_config_dict(self) -> dict[str, Any]:
        """The settings, for the model card."""
        sizes = {"mini_batch_size": self.mini_batch_size, "mini_batch_num_tokens": self.mini_batch_num_tokens}
        return super().get_config_dict() | sizes
