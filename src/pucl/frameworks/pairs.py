"""Pairs of texts: the other pairs of the batch are unlabelled."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from pucl import processes
from pucl.config import ATTRACTING_ORACLE, PLAIN, check_known
from pucl.contrast.objective import Floor
from pucl.contrast.pairing import check_temperature, pair_up
from pucl.contrast.pairs import Pairs
from pucl.frameworks.kind import FrameworkKind
from pucl.modality import EncoderSource
from pucl.recipe import Recipes
from pucl.settings import setting
from pucl.shapes import Float, Int, Tensor
from pucl.text.config import TextConfig
from pucl.text.encoders.registry import make_encoder
from pucl.text.modality import TEXTS, TextShape
from pucl.text.textset import TextBatch
from pucl.training.framework import Batch, Framework

Direction = Literal["both", "forward", "backward"]
"""Which texts are anchors: both, the first ones, or the second ones."""

DIRECTIONS: tuple[Direction, ...] = ("both", "forward", "backward")


@dataclass(frozen=True, kw_only=True)
class PairsConfig(TextConfig):
    """Pairs of texts: the partners of the other pairs of the batch are unlabelled."""

    framework: str = "pairs"
    epochs: int = 10
    batch_size: int = 128
    floor: Floor = "auto"
    temperature: float = setting(0.05, "cosines are divided by it", group="loss")
    direction: Direction = setting(
        "both", "which texts are anchors: forward the first ones, backward the second ones, or both", group="loss"
    )
    groups: bool = setting(
        default=True,
        meaning="pairs that share a text, or are joined by pairs that do, are positives of each other, never negatives",
        group="loss",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_temperature(self.temperature)
        check_known("direction", self.direction, DIRECTIONS)

    @property
    def uses_groups(self) -> bool:
        """Whether pairs that share a text are positives of each other, and never negatives.

        The oracle that attracts knows the classes, and equal texts with them.
        """
        return self.groups and self.correction != ATTRACTING_ORACLE


class PairedTexts(Framework[TextBatch]):
    """Each text against its partner, and against the partners of the other pairs of the batch, which are unlabelled.

    One encoder embeds all texts, and its output is compared without a head. With both directions, the losses of first
    and of second texts as anchors are averaged. With the plain correction this is the loss of sentence-transformers
    (MultipleNegativesRankingLoss, in one or both directions).

    Pairs that share a text are known to belong together. With `groups` they are positives of each other; otherwise they
    would push each other away.

    Where texts have labels, so that partners are drawn, a text can be the anchor of one pair and the partner of
    another. It is never compared with itself.

    Reference:
        Henderson et al., "Efficient Natural Language Response Suggestion for Smart Reply", 2017.
    """

    encodes = ("encoder",)
    averaged = True

    def __init__(self, config: PairsConfig, shape: TextShape, encoder: EncoderSource | None = None) -> None:
        super().__init__()
        self.config = config
        torch.manual_seed(config.seed)
        source = config.encoder if encoder is None else encoder
        self.encoder = make_encoder(source, buckets=config.buckets, width=config.width, fetch=shape.fetch)

    def pairs(self, batch: Batch[TextBatch]) -> list[Pairs]:
        """Compare first texts with second texts and the other way round, over all processes."""
        device = batch.ids.device
        draws = torch.rand(batch.whole, generator=batch.generator, dtype=torch.float64)[batch.part]
        sides = batch.samples.sides(draws.numpy())
        embeddings = [self.encoder(side.texts) for side in sides]
        ids = [torch.from_numpy(side.ids).to(device) for side in sides]
        groups = [torch.from_numpy(side.groups).to(device) for side in sides]
        gathered = [_gathered(*side) for side in zip(embeddings, ids, groups, strict=True)]
        # A pair of a file has one id. The two texts of a drawn pair have their own, which do not exclude the pair; and
        # a text may be drawn by two anchors. So all pairs of the step are left out, in both orders.
        drawn, texts = batch.samples.source.seconds is None, len(batch.samples.source)
        (_, first, _), (_, second, _) = gathered
        step = torch.cat([first * texts + second, second * texts + first])
        grouped = self.config.uses_groups
        orders = {"both": [(0, 1), (1, 0)], "forward": [(0, 1)], "backward": [(1, 0)]}
        made = []
        for one, other in orders[self.config.direction]:
            keys, key_ids, key_groups = gathered[other]
            made.append(
                pair_up(
                    embeddings[one],
                    embeddings[other],
                    keys,
                    temperature=self.config.temperature,
                    mask=~torch.isin(ids[one][:, None] * texts + key_ids, step) if drawn else None,
                    query_ids=ids[one],
                    unlabelled_ids=key_ids,
                    query_groups=groups[one] if grouped else None,
                    unlabelled_groups=key_groups if grouped else None,
                )
            )
        return made

    def forward(self, samples: TextBatch) -> Float[Tensor, "text feature"]:
        """The vectors of the texts; of pairs, of the first ones."""
        vectors: Tensor = self.encoder(samples.texts)
        return vectors

    def look(self, samples: TextBatch, generator: torch.Generator) -> list[Tensor]:
        """The embeddings of first and second texts."""
        draws = torch.rand(len(samples.indices), generator=generator, dtype=torch.float64)
        return [self.encoder(side.texts) for side in samples.sides(draws.numpy())]

    def parts_to_compile(self) -> list[nn.Module]:
        """None: encoders take texts, which the compiler cannot translate."""
        return []


def _gathered(
    embeddings: Float[Tensor, "part dim"], ids: Int[Tensor, " part"], groups: Int[Tensor, " part"]
) -> tuple[Float[Tensor, "whole dim"], Int[Tensor, " whole"], Int[Tensor, " whole"]]:
    """Embeddings, ids and groups of all processes, in the order of the whole batch."""
    sizes = processes.gather_sizes(len(ids), ids.device)
    return processes.gather(embeddings, sizes), processes.gather(ids, sizes), processes.gather(groups, sizes)


PAIRS = FrameworkKind(
    config=PairsConfig,
    build=PairedTexts,
    modality=TEXTS,
    correction=PLAIN,  # Communities of texts are coarser than many classes, and repeat all the same (docs/pairs.md).
    recipes=Recipes(
        # sentence-transformers: cosines times 20, and the learning rate of its examples.
        reference={"temperature": 0.05, "optimiser": "adam", "learning_rate": 2e-5, "weight_decay": 0.0},
    ),
)
