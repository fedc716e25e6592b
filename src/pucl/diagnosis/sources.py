"""Where embeddings come from: a run, a file, or a folder of files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.errors import DataError, reason_of
from pucl.data.npz import read_npz_arrays
from pucl.data.pairlist import read_parquet

SUFFIXES = (".npz", ".npy", ".parquet")
NAMES: dict[str, tuple[str, ...]] = {
    "embeddings": ("embeddings", "embedding", "train"),
    "views": ("views", "seconds", "train_seconds"),
    "labels": ("labels", "label", "train_labels"),
    "names": ("names", "name", "train_names"),
}
"""What is read, and what it may be called in a file: as here, as one of a table, or as ``pucl embed`` writes it."""

OF_A_RUN = 10_000  # Training samples of a run that are embedded: views take as long as in training.


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """Embeddings to diagnose; see `pucl.diagnosis.diagnose.diagnose`.

    Args:
        note: What was read, in words.
        temperature: The temperature of the run; None if it is not known.
        indices: Which samples of the training data these are; None for all, in their order.
    """

    embeddings: NDArray[Any]
    views: NDArray[Any] | None = None
    labels: NDArray[Any] | None = None
    names: tuple[str, ...] | None = None
    features: NDArray[Any] | None = None
    note: str
    temperature: float | None = None
    indices: NDArray[np.int64] | None = None


def read_source(path: Path, *, root: Path | None = None, encoder: str | None = None, seed: int = 0) -> Source:
    """Read the embeddings of a run, a file or a folder of files.

    Args:
        path: Directory of a finished run; a ``.npz``, ``.npy`` or ``.parquet`` file; or a folder of such files, which
            are read in the order of their names.
        root: Directory of the data of a run; see `pucl.data.root.data_root`.
        encoder: Makes the encoder of a run if it is not pucl's; see `pucl.load`.
        seed: Seed of the samples and views of a run.

    Raises:
        ValueError: If there are no embeddings, or they do not fit together.
    """
    if not path.exists():
        raise ValueError(
            f"{path} does not exist: expected the directory of a run, a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} "
            f"file, or a folder of such files"
        )
    if not path.is_dir():
        return _from_arrays(read_arrays(path), path.name)
    if (path / "config.json").exists():
        return _from_run(path, root, encoder, seed)
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not files:
        raise ValueError(
            f"{path} is neither the directory of a run nor a folder of {', '.join(SUFFIXES)} files. For a folder of "
            f"pictures, embed them first: pucl embed RUN {path} -o embeddings.npz"
        )
    return _from_arrays(_joined(files), f"{len(files)} files of {path.name}")


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of one file, by the names of `NAMES`.

    Raises:
        DataError: If the file is damaged, of another kind, or has no embeddings.
    """
    if path.suffix == ".npy":
        return {"embeddings": _read_npy(path)}
    everything = [name for names in NAMES.values() for name in names]
    if path.suffix == ".npz":
        arrays, members = read_npz_arrays(path, everything)
    elif path.suffix == ".parquet":
        columns = read_parquet(path, set(everything))
        arrays, members = {name: _column(path, name, each) for name, each in columns.items()}, list(columns)
    else:
        raise DataError(
            f"{path} has another ending than files of embeddings: expected {', '.join(SUFFIXES)}, got "
            f"{path.suffix or 'none'!r}"
        )
    found = {}
    for wanted, names in NAMES.items():
        there = next((name for name in names if name in arrays), None)
        if there is not None:
            found[wanted] = arrays[there]
    if "embeddings" not in found:
        held = ", ".join(members[:8]) or "nothing that is known"
        raise DataError(f"{path} has no embeddings: expected an array or column 'embeddings', got {held}")
    return found


def _read_npy(path: Path) -> NDArray[Any]:
    try:
        # A memory map is as large as the file, whatever its header says, and pickles are refused.
        array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # A damaged or hostile file may raise any exception.
        raise DataError(f"{path} is not a .npy file of numbers, or is damaged: {reason_of(error)}") from error
    return array


def _column(path: Path, name: str, column: Any) -> NDArray[Any]:
    """A column of a table: numbers, texts, or lists of numbers of the same length."""
    if column.null_count:
        raise DataError(f"{path}: the column {name} has {column.null_count} empty cells: expected a value in each row")
    values = getattr(column, "values", None)
    if values is None:
        array: NDArray[Any] = np.asarray(column.to_numpy(zero_copy_only=False))
        return array.astype(str) if array.dtype.kind == "O" else array
    lengths = np.unique(np.asarray(column.value_lengths())) if hasattr(column, "value_lengths") else np.array([])
    if len(lengths) != 1:
        raise DataError(f"{path}: {name} are vectors: expected lists of one length, got {len(lengths)} lengths")
    flat: NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), int(lengths[0]))


def _joined(files: Sequence[Path]) -> dict[str, NDArray[Any]]:
    """The arrays of several files, one below the other."""
    parts = [read_arrays(file) for file in files]
    joined = {}
    for name in NAMES:
        having = [name in part for part in parts]
        if not any(having):
            continue
        if not all(having):
            raise DataError(
                f"files of one folder are parts of one set: expected {name} in all or none of them, and "
                f"{files[having.index(False)].name} has none"
            )
        arrays = [part[name] for part in parts]
        if any(array.shape[1:] != arrays[0].shape[1:] for array in arrays):
            wrong = next(i for i, array in enumerate(arrays) if array.shape[1:] != arrays[0].shape[1:])
            raise DataError(
                f"files of one folder are parts of one set: expected rows of the shape {list(arrays[0].shape[1:])} in "
                f"{name}, and those of {files[wrong].name} have {list(arrays[wrong].shape[1:])}"
            )
        joined[name] = np.concatenate(arrays)
    return joined


def _from_arrays(arrays: dict[str, NDArray[Any]], note: str) -> Source:
    names = arrays.get("names")
    return Source(
        embeddings=arrays["embeddings"],
        views=arrays.get("views"),
        labels=arrays.get("labels"),
        names=None if names is None else tuple(map(str, names.tolist())),
        note=note,
    )


def _from_run(path: Path, root: Path | None, encoder: str | None, seed: int) -> Source:
    """Training samples of a finished run, in two random views, as its loss compared them."""
    from pucl.runs.trained import load  # noqa: PLC0415 (files of embeddings need no more than torch and numpy)

    trained = load(path, encoder=encoder)
    generator = torch.Generator().manual_seed(seed)
    seen = trained.compare_samples(_choose(generator), root=root, generator=generator)
    temperature = trained.config.as_json().get("temperature")
    some = "" if len(seen.indices) == seen.samples else f" of {seen.samples:,}, drawn at random"
    return Source(
        embeddings=seen.embeddings.numpy(),
        views=None if seen.views is None else seen.views.numpy(),
        labels=None if seen.labels is None else seen.labels.numpy(),
        names=seen.names,
        features=seen.features,
        note=f"{trained.config.subject}, {trained.config.short_name}: {len(seen.indices):,} training samples{some}",
        temperature=temperature,
        indices=None if len(seen.indices) == seen.samples else seen.indices,
    )


def _choose(generator: torch.Generator) -> Callable[[int], NDArray[np.int64]]:
    def choose(count: int) -> NDArray[np.int64]:
        chosen: NDArray[np.int64] = torch.randperm(count, generator=generator)[:OF_A_RUN].sort().values.numpy()
        return chosen

    return choose
