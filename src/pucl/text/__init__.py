"""Texts as a modality: pairs of texts, data sources, encoders, and the parts of a run that depend on them."""

from pucl.text.check import CheckedPairs, check_pairs
from pucl.text.duplicates import Duplicate, find_duplicates
from pucl.text.look import Look, look_at_pairs
from pucl.text.registry import SOURCES, load_texts
from pucl.text.textset import TextData, TextSet

__all__ = [
    "SOURCES",
    "CheckedPairs",
    "Duplicate",
    "Look",
    "TextData",
    "TextSet",
    "check_pairs",
    "find_duplicates",
    "load_texts",
    "look_at_pairs",
]
