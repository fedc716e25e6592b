"""Views of images: batched augmentation, the same on every device, with chances that a seed decides."""

from pucl.images.views.recipes import CMCViews, Crops, Parameters, Plain, PlainLab, SimCLRViews, moco_views

__all__ = ["CMCViews", "Crops", "Parameters", "Plain", "PlainLab", "SimCLRViews", "moco_views"]
