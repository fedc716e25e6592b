"""The r of a finished run's correction for any two of its training samples, kept with the embeddings of the run.

Corrections such as `clusters` know r from the samples alone. What they read it from is kept as arrays
``correction.NAME`` in ``embeddings.npz``. A correction whose r depends on the similarity of two views, as that of
`ratio`, is not kept: the embeddings of a run are those before the head, and have other similarities.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.config import NOT_TRAINED, ORACLES, RunConfig
from pucl.contrast.correction import Correction, CorrectionState
from pucl.data.npz import read_npz_arrays
from pucl.samples import EmbeddedSamples
from pucl.shapes import Tensor
from pucl.training.calibration import pairs_of_samples

PREFIX = "correction."
ROWS_AT_ONCE = 500


def kept_state(
    state: CorrectionState | None, samples: int, labels: NDArray[Any] | None, embedded: EmbeddedSamples
) -> dict[str, NDArray[Any]]:
    """The arrays to keep; empty if there is no r, or if it is of other samples than the embeddings.

    Numbers of each sample that the state only learns from, such as its features, are left out: they take as much room
    as the embeddings.

    Args:
        state: What the correction has learnt at the end of a run; None if it does not learn.
        samples: Number of training samples.
        labels: Their labels.
        embedded: The samples whose embeddings are kept.
    """
    same = embedded.count == samples and np.array_equal(_or_none(labels), _or_none(embedded.labels))
    if state is None or not same or not _reading(state, torch.arange(2)).of_samples:
        return {}
    return {
        PREFIX + name: buffer.cpu().numpy()
        for name, buffer in state.named_buffers()
        if not (buffer.is_floating_point() and buffer.ndim > 0 and len(buffer) == samples)
    }


def read_state(file: Path, config: RunConfig, samples: int) -> CorrectionState | None:
    """The state of a run's correction, as far as it was kept; None if there is none.

    Args:
        file: ``embeddings.npz`` of the run.
        config: Configuration of the run.
        samples: Number of samples in the file.

    Raises:
        ValueError: If the arrays are damaged.
    """
    if config.correction in (*ORACLES, *NOT_TRAINED):
        return None
    state = config.make_correction().start(samples)
    if state is None:
        return None
    arrays, _ = read_npz_arrays(file, [PREFIX + name for name, _ in state.named_buffers()])
    if not arrays:
        return None
    try:
        tensors = {name.removeprefix(PREFIX): torch.from_numpy(array) for name, array in arrays.items()}
        state.load_state_dict(tensors, strict=False)
    except (RuntimeError, TypeError) as error:  # Of torch, for other shapes and types.
        raise ValueError(f"what the correction has learnt does not fit its {samples} samples: {error}") from error
    return state


@torch.no_grad()
def posterior_of(
    state: CorrectionState, samples: NDArray[np.int64], neighbours: NDArray[np.int64]
) -> NDArray[np.float32] | None:
    """The r of each sample with some of the others; None while nothing is corrected.

    Args:
        state: See `read_state`.
        samples: Samples of the training data.
        neighbours: [sample, neighbour], for each sample the indices of others in `samples`.
    """
    r_of = posterior_rows(state, samples)
    if r_of is None:
        return None
    found = []
    for start in range(0, len(samples), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        found.append(r_of(rows).gather(1, torch.from_numpy(neighbours[rows])))
    r: NDArray[np.float32] = torch.cat(found).numpy().astype(np.float32)
    return r


def posterior_rows(state: CorrectionState, samples: NDArray[np.int64]) -> Callable[[slice], Tensor] | None:
    """A function that returns r of a block of the samples with all of them; None while nothing is corrected.

    The arguments are those of `posterior_of`.
    """
    ids = torch.from_numpy(samples)
    reading = _reading(state, ids)
    if not reading.of_samples:
        return None

    @torch.no_grad()
    def r_of(rows: slice) -> Tensor:
        hidden = reading.hidden(pairs_of_samples(ids[rows], ids).comparison())
        assert hidden is not None  # noqa: S101 (r of samples is known for all of them)
        return hidden.clamp(0, 1)

    return r_of


def _reading(state: CorrectionState, ids: Tensor) -> Correction:
    return state.read(pairs_of_samples(ids, ids))


def _or_none(labels: NDArray[Any] | None) -> NDArray[Any]:
    return np.empty(0) if labels is None else labels
