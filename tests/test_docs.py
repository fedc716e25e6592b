"""The docs are true: pages that show results are those of the records, links lead somewhere, examples run."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_pages_with_results_are_those_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    specification = importlib.util.spec_from_file_location("build", ROOT / "docs" / "build.py")
    assert specification is not None
    assert specification.loader is not None
    build = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(build)
    for path, text in build.built().items():
        assert path.read_text() == text, f"{path.name} is out of date: run python docs/build.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_examples_run(page: Path) -> None:
    for example in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(example, page.name, "exec"), {})  # noqa: S102


def test_readme_names_what_exists() -> None:
    """Every name of pucl in the table of calls is one that can be had."""
    namespace: dict[str, object] = {}
    exec("import pucl, torch; from pucl import *; from pucl.corrections import PUCL", namespace)  # noqa: S102
    calls = re.findall(r"`(pucl\.[a-z]+\.\w+|pucl\.\w+)\(", (ROOT / "README.md").read_text())
    assert len(calls) >= 4
    for call in calls:
        assert eval(call, namespace) is not None  # noqa: S307


@pytest.mark.parametrize(
    "page", ["README.md", "docs/images.md", "docs/table1.md", "docs/ablations.md", "docs/table2.md"]
)
def test_results_say_that_digits_are_those_of_a_machine(page: str) -> None:
    assert "On another machine the same seeds give other digits" in (ROOT / page).read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_one_is_singular(page: Path) -> None:
    assert re.findall(r"\b1 (?:epochs|seeds|rows|images|runs)\b", page.read_text()) == []
