"""Count the lines of Python by folder: of pucl, its tests, and the programs beside it.

python scripts/sizes.py                # a table
python scripts/sizes.py --json FILE    # also write the counts
python scripts/sizes.py --root DIR     # of another copy of the project
"""

import argparse
import ast
import json
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("tests", "benchmarks", "faults", "study", "docs", "scripts")


def sizes(root: Path) -> dict[str, dict[str, int]]:
    """For each folder of src/pucl, for all of it, and for each folder beside: all lines, and those of docstrings."""
    package = root / "src" / "pucl"
    folders = {f"pucl/{folder.name}": folder.rglob("*.py") for folder in sorted(package.iterdir()) if folder.is_dir()}
    counts = {name: count(files) for name, files in folders.items()}
    counts["pucl, files beside folders"] = count(package.glob("*.py"))
    counts["pucl"] = count(package.rglob("*.py"))
    counts |= {name: count((root / name).rglob("*.py")) for name in BESIDE}
    return {name: found for name, found in counts.items() if found["lines"]}


def count(files: Iterable[Path]) -> dict[str, int]:
    """All lines, lines of docstrings, and empty lines of these files."""
    lines = docstrings = empty = 0
    for file in files:
        text = file.read_text()
        lines += len(text.splitlines())
        empty += sum(not line.strip() for line in text.splitlines())
        docstrings += sum(_docstring_lines(node) for node in ast.walk(ast.parse(text)))
    return {"lines": lines, "docstrings": docstrings, "empty": empty}


def _docstring_lines(node: ast.AST) -> int:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return 0
    first = node.body[0]
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return 0
    if not isinstance(first.value.value, str):
        return 0
    return sum(bool(line.strip()) for line in first.value.value.splitlines())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the counts to this file")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the project (default: this one)")
    arguments = parser.parse_args()
    if not (arguments.root / "src" / "pucl").is_dir():
        parser.error(f"--root is a copy of the project: expected a directory with src/pucl, got {arguments.root}")
    counts = sizes(arguments.root)
    print(f"{'folder':<28}{'lines':>8}{'docstrings':>12}{'empty':>8}")
    for name, found in counts.items():
        print(f"{name:<28}{found['lines']:>8,}{found['docstrings']:>12,}{found['empty']:>8,}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(counts, indent=2) + "\n")


if __name__ == "__main__":
    main()
