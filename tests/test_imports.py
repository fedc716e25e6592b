"""Imports point one way, and a bare install imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "pucl"

# A part may import from those in its own row and in rows above; cli is last and may import from all.
LAYERS = [
    {"shapes", "files", "precision", "progress", "records", "settings", "signals", "texts"},
    {"contrast"},
    {"estimation"},
    {"corrections"},
    {"memory", "processes", "devices", "batch_norm", "data"},
    {"functional", "together", "floored"},
    {"pairs"},
    {"losses", "adapters", "evaluation", "training"},
    {"config", "recipe"},
    {"samples"},
    {"modality"},
    {"images", "graphs", "text"},
    {"modalities"},
    {"frameworks"},
    {"runs"},
    {"diagnosis", "export"},
    {"reports", "doctor"},
    {"paper"},
    {"commands"},
    {"cli", "__init__", "__main__"},
]
LAYER_OF = {part: depth for depth, parts in enumerate(LAYERS) for part in parts}
ONLY = {
    "precision": {"torch"},
    "contrast": {"torch"},
    "estimation": {"torch", "numpy"},
    "corrections": {"torch"},
    "losses": {"torch"},
    "memory": {"torch"},
    "processes": {"torch"},
    "functional": {"torch"},
    "floored": {"torch"},
    "adapters": {"torch"},
    "together": {"torch"},
}


LIBRARIES = {"adapters/sentence_transformers": {"torch", "sentence_transformers", "transformers"}}
"""Folders for the calls of a library that have to import it; nothing of pucl imports them."""


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[str]:
    """Every module that a file imports anywhere, in full; names taken from `pucl` itself as modules."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"pucl.{alias.name}" for alias in node.names] if node.module == "pucl" else [node.module]
    return found


def test_every_part_has_a_place() -> None:
    assert {part_of(path) for path in SOURCE.rglob("*.py")} == LAYER_OF.keys()


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    allowed = LIBRARIES.get(path.parent.relative_to(SOURCE).as_posix(), ONLY.get(part))
    for module in imports_of(path):
        package, *rest = module.split(".")
        if package == "pucl" and rest and rest[0] in LAYER_OF:
            assert LAYER_OF[rest[0]] <= LAYER_OF[part], f"{part} may not import {module}"
        elif package != "pucl" and allowed is not None and package not in sys.stdlib_module_names:
            assert package in allowed, f"{part} may import only {allowed}, not {module}"


@pytest.mark.parametrize("folder", LIBRARIES)
def test_nothing_imports_a_folder_for_a_library(folder: str) -> None:
    """So that pucl.adapters can be imported without the library."""
    name = f"pucl.{folder.replace('/', '.')}"
    outside = [path for path in SOURCE.rglob("*.py") if path.parent != SOURCE / folder]
    assert [path for path in outside if any(module.startswith(name) for module in imports_of(path))] == []


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_package_needs_nothing_else_of_the_repository(path: Path) -> None:
    """Folders beside src are not installed."""
    beside = {each.name for each in SOURCE.parents[1].iterdir() if each.is_dir()}
    assert {"benchmarks", "scripts", "tests"} <= beside
    assert not beside & {module.split(".")[0] for module in imports_of(path)}


@pytest.mark.slow
def test_torch_distributed_has_one_importer() -> None:
    importers = {part_of(path) for path in SOURCE.rglob("*.py") if "torch.distributed" in imports_of(path)}
    assert importers == {"processes"}


@pytest.mark.slow
def test_import_needs_torch_and_numpy_alone(tmp_path: Path) -> None:
    """Without every other installed distribution, the losses, the help and the doctor still work."""
    program = """
import sys, importlib.metadata
torch_alone = {"torch", "numpy", "pucl"}
def needs(name, seen):
    if name.lower() in seen: return seen
    seen.add(name.lower())
    try: requirements = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError: return seen
    for requirement in requirements:
        if "extra ==" not in requirement:
            word = "".join(c if c.isalnum() or c in "-_." else " " for c in requirement).split()[0]
            needs(word, seen)
    return seen
allowed = needs("torch", set()) | needs("numpy", set()) | {"pucl"}
def plain(name): return name.lower().replace("_", "-")
allowed = {plain(name) for name in allowed}
blocked = {module for module, owners in importlib.metadata.packages_distributions().items()
           if not any(plain(owner) in allowed for owner in owners)}
assert "matplotlib" in blocked and "jaxtyping" in blocked and "torch" not in blocked, blocked
class Without:
    def __init__(self, finder): self.finder = finder
    def __getattr__(self, name): return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in blocked else self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Without, sys.meta_path)
import torch, pucl, pucl.cli
loss = pucl.PUCLLoss()(torch.randn(4, 3), torch.randn(4, 3))
assert loss > 0
assert pucl.cli.main(["--help"]) == 0
assert pucl.cli.main(["doctor"]) == 0
import numpy as np
rows = np.random.default_rng(0).standard_normal((8, 16))[np.arange(320) % 8]
rows += np.random.default_rng(1).standard_normal((320, 16)) / 3
np.savez("rows.npz", embeddings=rows)
assert pucl.cli.main(["diagnose", "rows.npz"]) == 0
assert pucl.cli.main(["suspects", "rows.npz", "-o", "pairs.csv"]) == 0
assert pucl.cli.main(["suspects", "rows.npz", "-o", "pairs.parquet"]) == 2
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert "usage: pucl" in done.stdout
    assert "All checks passed.\n" in done.stdout
    assert "Share of false negatives: 1" in done.stdout
    assert "written: pairs.csv" in done.stdout
    assert "a Parquet file needs pyarrow, which is not installed" in done.stderr
