"""Samples around the centres of classes, for diagnoses."""

import numpy as np
from numpy.typing import NDArray

Classed = tuple[NDArray[np.float32], NDArray[np.int64]]

CLASSES, SAMPLES = 8, 320


def make(samples: int = SAMPLES, *, noise: float = 0.45, seed: int = 0) -> Classed:
    """Embeddings of any length, and their classes. Other seeds give other views of the same classes."""
    numbers = np.random.default_rng(seed)
    labels = np.arange(samples) % CLASSES
    centres = np.random.default_rng(7).standard_normal((CLASSES, 16))
    rows = centres[labels] + noise * numbers.standard_normal((samples, 16))
    return (3 * rows).astype(np.float32), labels
