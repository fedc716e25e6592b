"""Digests of short trainings, to show that a refactoring changes no number.

    python scripts/digests.py --write FILE   # before the change
    python scripts/digests.py --check FILE   # after it, on the same machine; the exit code is 1 if a digest differs

Each case is one `pucl train` with a fixed seed on one thread. Its digest is the SHA-256 of all weights and embeddings,
with their names, types and shapes. Different processors and versions of torch round differently, so digests hold for
one machine and one installation, and belong in no repository.
"""

import argparse
import contextlib
import hashlib
import io
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from pucl.cli import main as pucl_command

CORRECTIONS = ("plain", "deb", "hard", "ring", "pucl", "oracle")
IMAGES = "--limit 192 --epochs 2 --batch-size 32 --image-size 8 --monitor 1"
FRAMEWORKS = {
    "simclr": f"simclr digits {IMAGES}",
    "moco": f"moco digits {IMAGES} --queue-size 64 --splits 2",
    "cmc": f"cmc digits {IMAGES} --draws 64",
    "infograph": "infograph shapes --limit 60 --epochs 3 --batch-size 22 --hidden 8 --probes knn",
}
VARIANTS = {
    "simclr, three views": f"{FRAMEWORKS['simclr']} --view-count 3 --correction pucl",
    "simclr, cosine, clipped": f"{FRAMEWORKS['simclr']} --schedule cosine --warmup-epochs 1 --clip 1 --correction hard",
    "simclr, LARS": f"{FRAMEWORKS['simclr']} --optimiser lars --learning-rate 0.1 --correction pucl",
    "simclr, Jensen-Shannon": f"{FRAMEWORKS['simclr']} --objective jensen_shannon --correction pucl",
    "moco, symmetric": f"{FRAMEWORKS['moco']} --symmetric --correction pucl",
    "infograph, HCL as published": f"{FRAMEWORKS['infograph']} --compat hcl --correction hard",
    "infograph, InfoNCE": f"{FRAMEWORKS['infograph']} --objective infonce --temperature 0.5 --correction pucl",
}
CASES = {
    f"{framework}, {correction}": f"{command} --correction {correction}"
    for framework, command in FRAMEWORKS.items()
    for correction in CORRECTIONS
} | VARIANTS
"""By name: what follows `pucl train`."""


def train(command: str, out: Path) -> None:
    """Run one training into an empty directory."""
    output = io.StringIO()
    arguments = ["train", *command.split(), "--seed", "7", "--out", str(out)]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = pucl_command(arguments)
    if code != 0:
        raise RuntimeError(f"pucl train {command} ended with {code}:\n{output.getvalue()}")


def digest(arrays: Mapping[str, NDArray[np.generic]]) -> str:
    """SHA-256 of arrays with their names, types and shapes, in the order of their names."""
    state = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        state.update(f"{name} {array.dtype} {array.shape}\n".encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


def digests(names: Iterable[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Train each case and yield its digests, of weights and of embeddings."""
    for name in names:
        with tempfile.TemporaryDirectory(prefix="pucl-digests-") as directory:
            out = Path(directory) / "run"
            train(CASES[name], out)
            with np.load(out / "embeddings.npz") as embeddings:
                found = {
                    "weights": digest(load_file(out / "encoder.safetensors")),
                    "embeddings": digest(dict(embeddings)),
                }
        yield name, found


def main() -> int:
    """Train all cases, print their digests, and write or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="WORD", help="only cases whose names contain one of these words")
    purpose = parser.add_mutually_exclusive_group()
    purpose.add_argument("--write", type=Path, metavar="FILE.json", help="write the digests to this file")
    purpose.add_argument("--check", type=Path, metavar="FILE.json", help="compare with the digests in this file")
    arguments = parser.parse_args()
    chosen = [name for name in CASES if not arguments.cases or any(word in name for word in arguments.cases)]
    if not chosen:
        parser.error(f"a word chooses cases by name: expected part of {'; '.join(CASES)}, got {arguments.cases}")
    earlier = None if arguments.check is None else json.loads(arguments.check.read_text())
    torch.set_num_threads(1)
    written, different = {}, []
    for name, found in digests(chosen):
        written[name] = found
        verdict = ""
        if earlier is not None:
            parts = [part for part, value in found.items() if earlier.get(name, {}).get(part) != value]
            different += [name] if parts else []
            verdict = f"  DIFFERENT {' and '.join(parts)}" if parts else "  equal"
        print(f"{name:28}  weights {found['weights'][:12]}  embeddings {found['embeddings'][:12]}{verdict}", flush=True)
    if arguments.write is not None:
        arguments.write.write_text(json.dumps(written, indent=2) + "\n")
    if different:
        print(f"{len(different)} of {len(chosen)} differ: {'; '.join(different)}", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
