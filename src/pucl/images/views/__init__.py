"""Views of images: random augmentation of whole batches. A seed gives the same views on every device."""

from pucl.images.views.augmentations import CMCViews, SimCLRViews

__all__ = ["CMCViews", "SimCLRViews"]
