"""The table of modalities: images, graphs, texts. A new modality is a folder, and a word here."""

from pucl.graphs.modality import GRAPHS
from pucl.images.modality import IMAGES
from pucl.modality import Modality
from pucl.text.modality import TEXTS

MODALITIES: dict[str, Modality] = {modality.name: modality for modality in (IMAGES, GRAPHS, TEXTS)}
"""By name. Data that no modality knows by name, or finds at a path, are taken for those of the first."""
