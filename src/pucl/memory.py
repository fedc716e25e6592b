"""Embeddings that are kept after their batch: a queue of the most recent ones, and a bank with one for each sample.

Both are modules: their buffers are saved with the model. Both know the sample of each embedding, so that an anchor is
not compared with itself.
"""

from typing import Any, NamedTuple

import torch
from torch import nn

from pucl.contrast.embeddings import SHORTEST
from pucl.contrast.knowledge import UNKNOWN
from pucl.shapes import Float, Int, Tensor


class Remembered(NamedTuple):
    """What a queue holds.

    Args:
        keys: The embeddings.
        ids: Sample of each; -1 where it is not known.
        groups: Known group of each; -1 for none.
    """

    keys: Float[Tensor, "filled dim"]
    ids: Int[Tensor, " filled"]
    groups: Int[Tensor, " filled"]


class Queue(nn.Module):
    """The most recent embeddings, first in, first out.

    It starts empty, not with noise, and wraps around entry by entry. Even if its size is no multiple of the batch, no
    key is dropped, and the oldest keys are replaced first.

    Args:
        size: Number of embeddings that it holds.
        dim: Dimension of the embeddings; None takes it from the first embeddings (or from a loaded state).
    """

    keys: Float[Tensor, "size dim"]
    ids: Int[Tensor, " size"]
    groups: Int[Tensor, " size"]
    position: Int[Tensor, ""]
    filled: Int[Tensor, ""]

    def __init__(self, size: int, dim: int | None = None) -> None:
        super().__init__()
        _check_count("size is how many embeddings the queue holds", size, 1)
        if dim is not None:
            _check_count("dim is the dimension of the embeddings", dim, 1)
        self.size = size
        self._dim = dim
        self.register_buffer("keys", torch.zeros(size, dim or 0))
        self.register_buffer("ids", torch.full((size,), UNKNOWN))
        self.register_buffer("groups", torch.full((size,), UNKNOWN))
        self.register_buffer("position", torch.tensor(0))
        self.register_buffer("filled", torch.tensor(0))
        self._full = False  # Once it is full, the device is not asked again.

    def contents(self) -> Remembered:
        """Copies of the embeddings so far, of their ids and of their groups, in no particular order.

        Copies, since the backward pass needs them and `push` overwrites the originals.
        """
        if not self._full:
            filled = int(self.filled)
            self._full = filled == self.size
            return Remembered(*(each[:filled].clone() for each in (self.keys, self.ids, self.groups)))
        return Remembered(self.keys.clone(), self.ids.clone(), self.groups.clone())

    @torch.no_grad()
    def push(
        self,
        keys: Float[Tensor, "batch dim"],
        ids: Int[Tensor, " batch"] | None = None,
        groups: Int[Tensor, " batch"] | None = None,
    ) -> None:
        """Replace the oldest embeddings by these. Of more than `size` at once, the last are kept."""
        if keys.ndim != 2:
            raise ValueError(
                f"keys go into the queue row by row: expected the shape [batch, dim], got {tuple(keys.shape)}"
            )
        if self.keys.shape[1] == 0:
            self.keys = self.keys.new_zeros(self.size, keys.shape[1], dtype=keys.dtype, device=keys.device)
            for name in ("ids", "groups", "position", "filled"):
                setattr(self, name, getattr(self, name).to(keys.device))
        if keys.shape[1] != self.keys.shape[1]:
            raise ValueError(
                f"keys go into a queue of dimension {self.keys.shape[1]}: expected the same, got {keys.shape[1]}"
            )
        batch = len(keys)
        ids = self._names("ids name the sample of each key", ids, keys)
        groups = self._names("groups name the known group of each key", groups, keys)
        # A key with NaN would spoil every later step. As a zero vector it has similarity 0 to everything.
        keys = torch.where(keys.isfinite().all(dim=1, keepdim=True), keys, 0.0)
        keys, ids, groups = keys[-self.size :], ids[-self.size :], groups[-self.size :]
        start = self.position + (batch - len(keys))
        indices = (start + torch.arange(len(keys), device=keys.device)) % self.size
        self.keys.index_copy_(0, indices, keys.to(self.keys.dtype))
        self.ids.index_copy_(0, indices, ids.to(torch.int64))
        self.groups.index_copy_(0, indices, groups.to(torch.int64))
        self.position.copy_((self.position + batch) % self.size)
        self.filled.copy_((self.filled + batch).clamp_max(self.size))

    @staticmethod
    def _names(
        meaning: str, names: Int[Tensor, " batch"] | None, keys: Float[Tensor, "batch dim"]
    ) -> Int[Tensor, " batch"]:
        """The ids or groups of these keys, unknown if None; raise if they do not go with the keys."""
        if names is None:
            return torch.full((len(keys),), UNKNOWN, device=keys.device)
        if names.shape != (len(keys),) or names.is_floating_point():
            raise ValueError(f"{meaning}: expected {len(keys)} integers, got {names.dtype} {list(names.shape)}")
        return names

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if prefix + "ids" in state_dict and prefix + "groups" not in state_dict:  # Saved before queues had groups.
            state_dict[prefix + "groups"] = torch.full((self.size,), UNKNOWN)
        wrong = self._wrong_in({name: state_dict.get(prefix + name) for name in ("keys", "position", "filled")})
        if wrong:
            args[-1].extend(wrong)  # torch collects these and raises them together when all parts are loaded.
            return
        saved = state_dict.get(prefix + "keys")
        if saved is not None and self._dim is None and saved.shape[1] != self.keys.shape[1]:
            self.keys = self.keys.new_zeros(self.size, saved.shape[1], dtype=saved.dtype)
        self._full = False
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _wrong_in(self, saved: dict[str, Tensor | None]) -> list[str]:
        """Messages about values that no queue of this size can have saved."""
        keys, wrong = saved["keys"], []
        if keys is not None and (keys.ndim != 2 or len(keys) != self.size):
            return [f"keys of the saved queue: expected the shape [{self.size}, dim], got {tuple(keys.shape)}"]
        for name, meaning, most in (
            ("position", "where the next key goes", self.size - 1),
            ("filled", "how many keys the queue holds", self.size),
        ):
            value = saved[name]
            if value is None or value.is_meta:
                continue
            if value.numel() != 1 or value.is_floating_point() or not 0 <= int(value) <= most:
                wrong.append(
                    f"{name} of the saved queue is {meaning}: expected an integer from 0 to {most}, got {value}"
                )
        return wrong

    def extra_repr(self) -> str:
        """Size and dimension."""
        return f"size={self.size}, dim={self.keys.shape[1] or 'of the first keys'}"


class Bank(nn.Module):
    """One embedding for every sample of the data, a moving average of the embeddings of that sample.

    Args:
        size: Number of samples.
        dim: Dimension of the embeddings.
        momentum: Share of the old entry that stays at an update, 0 <= momentum < 1.
    """

    entries: Float[Tensor, "size dim"]

    def __init__(self, size: int, dim: int, momentum: float = 0.5) -> None:
        super().__init__()
        _check_count("size is how many samples the bank holds an embedding of", size, 2)
        _check_count("dim is the dimension of the embeddings", dim, 1)
        if not 0 <= momentum < 1:
            raise ValueError(
                f"momentum is the share of the old entry that stays: expected 0 <= momentum < 1, got {momentum}"
            )
        self.momentum = momentum
        self.register_buffer("entries", _to_unit(torch.randn(size, dim)))

    @torch.no_grad()
    def update(self, ids: Int[Tensor, " batch"], embeddings: Float[Tensor, "batch dim"]) -> None:
        """Move the entries of these samples towards their new embeddings, and normalise them."""
        ids, finite = ids.to(torch.int64), embeddings.isfinite().all(dim=1, keepdim=True)
        moved = self.momentum * self.entries[ids] + (1 - self.momentum) * _to_unit(embeddings)
        # An embedding with NaN must not spoil the entry for good.
        self.entries.index_copy_(0, ids, torch.where(finite, _to_unit(moved).to(self.entries.dtype), self.entries[ids]))

    def extra_repr(self) -> str:
        """Size, dimension and momentum."""
        return f"size={self.entries.shape[0]}, dim={self.entries.shape[1]}, momentum={self.momentum}"


def _check_count(meaning: str, count: object, least: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < least:
        raise ValueError(f"{meaning}: expected an integer of at least {least}, got {count!r}")


def _to_unit(vectors: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
    length: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / length.clamp_min(SHORTEST)
