"""Ways to damage bytes."""

from collections.abc import Callable

import numpy as np

Damage = Callable[[bytearray, np.random.Generator], None]
EXTREMES = (
    *(b"\x00" * 4, b"\xff" * 4, b"\xff" * 8, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80\x00\x00\x00"),
    *(b"-1", b"9" * 20),
)


def _flip_bits(content: bytearray, rng: np.random.Generator) -> None:
    """One bit, mostly; else up to eight."""
    for _ in range(1 if rng.random() < 0.7 else int(rng.integers(2, 9))):
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))


def _cut(content: bytearray, rng: np.random.Generator) -> None:
    del content[int(rng.integers(len(content))) :]


def _remove(content: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(content)))
    del content[start : start + int(rng.integers(1, 64))]


def _insert(content: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(content)))
    content[start:start] = rng.bytes(int(rng.integers(1, 64)))


def _splice(content: bytearray, rng: np.random.Generator) -> None:
    """Copy a piece of the file over another one."""
    source, target = (int(rng.integers(len(content))) for _ in range(2))
    length = int(rng.integers(1, 256))
    content[target : target + length] = content[source : source + length]


def _blank(content: bytearray, rng: np.random.Generator) -> None:
    """A sector that was never written."""
    start = int(rng.integers(len(content)))
    content[start : start + 512] = bytes(len(content[start : start + 512]))


def _extreme(content: bytearray, rng: np.random.Generator) -> None:
    """A number that is as large or small as can be, preferably where headers are."""
    start = int(rng.integers(len(content) if rng.random() < 0.5 else min(len(content), 128)))
    value = EXTREMES[int(rng.integers(len(EXTREMES)))]
    content[start : start + len(value)] = value


FLIPS: tuple[Damage, ...] = (*[_flip_bits] * 8, _blank, _cut)  # What disks do.
WAYS: tuple[Damage, ...] = (_flip_bits, _flip_bits, _cut, _remove, _insert, _splice, _blank, _extreme)


def damaged(content: bytes, rng: np.random.Generator, ways: tuple[Damage, ...] = WAYS, most: int = 3) -> bytes:
    """The same bytes with some damage."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, most + 1))):
        if changed:
            ways[int(rng.integers(len(ways)))](changed, rng)
    return bytes(changed)
