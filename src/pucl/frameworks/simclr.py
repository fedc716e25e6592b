"""SimCLR: the other samples of the batch are unlabelled."""

from torch import nn

from pucl import processes
from pucl.contrast.oracle import without_false_negatives
from pucl.contrast.pairing import pair_views
from pucl.contrast.pairs import Pairs
from pucl.frameworks.framework import ImageBatch, see
from pucl.images.views.recipes import SimCLRViews
from pucl.shapes import Float, Tensor, UInt8
from pucl.together import pair_views_together


class SimCLR(nn.Module):
    """Two or more augmented views of each image; all views of all other images are unlabelled.

    Args:
        encoder: Images to features.
        head: Features to the embeddings that are compared.
        views: How an image is augmented.
        view_count: How many views of each image; more than two give several positives.
        temperature: What cosines are divided by.

    Reference:
        Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        views: SimCLRViews,
        *,
        view_count: int = 2,
        temperature: float = 0.5,
    ) -> None:
        super().__init__()
        if view_count < 2:
            raise ValueError(f"views of one image are each other's positives: expected at least 2, got {view_count}")
        self.encoder = encoder
        self.head = head
        self.views = views
        self.view_count = view_count
        self.temperature = temperature

    @property
    def ready(self) -> bool:
        """Always: a batch is a sample of the data."""
        return True

    def pairs(self, batch: ImageBatch) -> list[Pairs]:
        """Every view against all views, each view with batch statistics of its own."""
        embeddings = [self.head(self.encoder(see(batch, self.views))) for _ in range(self.view_count)]
        together = processes.world_size() > 1
        pair = pair_views_together if together else pair_views
        pairs = pair(embeddings, temperature=self.temperature, samples=batch.ids)
        if batch.labels is None:
            return [pairs]
        labels = batch.labels[batch.ids]
        of_all = processes.gather(labels, processes.gather_sizes(len(labels), labels.device)) if together else labels
        return [without_false_negatives(pairs, labels.repeat(self.view_count), of_all.repeat(self.view_count))]

    def commit(self) -> None:
        """Nothing outlives the batch."""

    def forward(self, samples: UInt8[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch feature"]:
        """The encoder's output for the image as it is."""
        features: Tensor = self.encoder(self.views.plain(samples))
        return features
