"""The docs are true: pages that show results are those of the records, links lead somewhere, examples run."""

import re
from pathlib import Path

import pytest
from PIL import Image

from loading import loaded
from pucl.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += [ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md"]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_pages_with_results_are_those_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    for path, text in loaded(ROOT / "docs" / "build.py").built().items():
        assert path.read_text() == text, f"{path.name} is out of date: run python docs/build.py"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


DATA = {"simclr": "digits", "pairs": "requests", "infograph": "shapes"}
"""Small data for the frameworks whose runs are loaded in examples."""


def examples_of(page: Path) -> list[str]:
    """The Python blocks of a page, but for those below a comment such as ``<!-- not run: needs torchvision -->``."""
    return re.findall(r"(?<!-->\n)^```python\n(.*?)```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def prepare(example: str) -> None:
    """Make the run that an example loads, by a short training, and the pictures that it reads."""
    for run, framework in re.findall(r"pucl\.load\(\"(runs/(\w+)-[^\"]+)\"\)", example):
        assert main(["train", framework, DATA[framework], "--epochs=1", f"--out={run}"]) == 0
    for picture in re.findall(r"\"(\w+\.png)\"", example):
        Image.new("RGB", (8, 8), "teal").save(picture)


def is_slow(page: Path) -> bool:
    return any(word in example for example in examples_of(page) for word in ("pucl.load(", "torch_geometric"))


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] * is_slow(page)) for page in PAGES]
)
@pytest.mark.filterwarnings("ignore:.*jit.script:DeprecationWarning")  # Of torch_geometric, when it is imported.
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # Some write files.
    for example in examples_of(page):
        prepare(example)
        exec(compile(example, page.name, "exec"), {})  # noqa: S102


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "docs"], ids=name_of)
def test_every_block_names_its_language(page: Path) -> None:
    """So that no Python escapes the test above."""
    opening = re.findall(r"^```(.*)$", page.read_text(), flags=re.MULTILINE)[::2]
    assert set(opening) <= {"python", "diff", "text", "toml"}
    for comment in re.findall(r"^(.*-->)\n```python$", page.read_text(), flags=re.MULTILINE):
        assert re.fullmatch(r"<!-- not run: .+ -->", comment), f"{page.name} does not say why: {comment}"


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


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_one_is_singular(page: Path) -> None:
    assert re.findall(r"\b1 (?:epochs|seeds|rows|images|runs)\b", page.read_text()) == []
