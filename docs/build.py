"""Write the pages that show results, from the records that the commands left: ``python docs/build.py``.

No number on these pages is typed by hand. A test compares them with what this program would write.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results.ablations import ablations_page
from results.benchmarks import benchmarks_page
from results.diagnosis import diagnosis_page
from results.graphs import table2_page
from results.house import house_page
from results.images import images_page
from results.pairs import pairs_page
from results.ranking import ranking_page
from results.readme import readme
from results.reliability import reliability_page
from results.study import study_page
from results.table1 import table1_page
from results.theory import theory_page

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "records"

STUDIES = ("study", "study-fashion", "study-cifar", "study-graphs")
"""The directories of `python -m study`: digits, Fashion-MNIST, CIFAR, graphs."""

STUDY_FILES = ("rows/table.json", "choice/table.json", "rows/runs.jsonl")
"""What the page needs of each: the rows, the temperatures, and the runs."""

PAGES: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "theory.md": (theory_page, ("theory/theory.json",)),
    "benchmarks.md": (
        benchmarks_page,
        (
            "bench/loss.json",
            "bench/loss-large.json",
            "bench/train.json",
            "bench/graph.json",
            "bench/graph-one-thread.json",
            "bench/grid.json",
            "bench/retrieval.json",
            "bench/ratio.json",
            "bench/auto.json",
            "bench/ranking.json",
        ),
    ),
    "diagnosis.md": (diagnosis_page, ("diagnosis/cases.json", "bench/diagnose.json")),
    "reliability.md": (reliability_page, ("faults/campaign.json",)),
    "house.md": (
        house_page,
        ("house/walk.json", "house/walk-before.json", "house/sizes.json", "house/sizes-before.json"),
    ),
    "measurement.md": (
        study_page,
        (
            *(f"{study}/{file}" for study in STUDIES for file in STUDY_FILES),
            "study-size/table.json",
        ),
    ),
    "pairs.md": (pairs_page, ("pairs/pairs.json",)),
    "images.md": (images_page, ("images/cifar10-small/comparison.json",)),
    "table1.md": (table1_page, ("images/table-1/table.json", "images/table-1-longer/table.json")),
    "ablations.md": (
        ablations_page,
        ("images/ablate-alpha-c/table.json", "images/ablate-unlabelled/table.json"),
    ),
    "table2.md": (
        table2_page,
        (
            "graphs/table-2/table.json",
            "graphs/table-2-chosen/table.json",
            "graphs/settings/settings.json",
            "graphs/settings-dd/settings.json",
        ),
    ),
}
"""Each page, what writes it, and the records it is written from. Without its first record a page is left out."""


README = (
    "images/digits/comparison.json",
    "graphs/table-2/table.json",
    *(f"{study}/rows/table.json" for study in STUDIES),
)
"""The records from which the README has its results."""

RANKING = "pairs/ranking.json"
"""The record from which docs/sentence-transformers.md has its results."""


def built() -> dict[Path, str]:
    """Every page and its text."""
    pages = {
        ROOT / "docs" / name: page(*(loaded(record) for record in records))
        for name, (page, records) in PAGES.items()
        if (RECORDS / records[0]).exists()
    }
    digits, *others = (loaded(record) for record in README)
    if digits is not None:
        pages[ROOT / "README.md"] = readme((ROOT / "README.md").read_text(), digits, *others)
    if (ranking := loaded(RANKING)) is not None:
        page = ROOT / "docs" / "sentence-transformers.md"
        pages[page] = ranking_page(page.read_text(), ranking)
    return pages


def loaded(record: str) -> Any:
    """A record, or the list of records of a .jsonl file; None for one that is not there."""
    path = RECORDS / record
    if not path.exists():
        return None
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return json.loads(path.read_text())


def main() -> int:
    """Write all pages."""
    for path, text in built().items():
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
