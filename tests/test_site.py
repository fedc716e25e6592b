"""The documentation as a site: built strictly, with every public name explained and nothing from other hosts."""

import importlib
import inspect
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import pucl
from loading import loaded

ROOT = Path(__file__).resolve().parents[1]
MODULES = ("losses", "functional", "corrections", "adapters", "pairs")


def public_names() -> list[str]:
    """Every name that users may import, as the reference knows it."""
    names = [f"pucl.{part}.{name}" for part in MODULES for name in importlib.import_module(f"pucl.{part}").__all__]
    shown = {*MODULES, *(name.rpartition(".")[2] for name in names)}
    return names + [f"pucl.{name}" for name in pucl.__all__ if name not in shown]


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_has_a_docstring(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    value = getattr(importlib.import_module(module), attribute)
    if isinstance(value, dict):  # A docstring of its own stands below it.
        source = Path(str(importlib.import_module(module).__file__)).read_text()
        assert re.search(rf'^{attribute}\b.*?^}}\n"""\w', source, flags=re.MULTILINE | re.DOTALL)
        return
    text = inspect.getdoc(value)
    assert text is not None
    assert not text.startswith(f"{attribute}("), "the signature that dataclasses write is no docstring"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    pytest.importorskip("mkdocstrings")
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.slow
class TestSite:
    def test_reference_has_every_public_name(self, site: Path) -> None:
        inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"zlib.\n", 1)[1]).decode()
        explained = {line.split()[0] for line in inventory.splitlines()}
        assert set(public_names()) <= explained

    def test_formulas_are_shown(self, site: Path) -> None:
        for page in site.rglob("*.html"):
            assert "arithmatex" not in page.read_text(), f"{page.name} has a formula as LaTeX"
        assert (site / "corrections.html").read_text().count("<math") > 50
        assert "<math" in (site / "reference" / "losses.html").read_text()

    def test_nothing_is_fetched_from_other_hosts(self, site: Path) -> None:
        for page in site.rglob("*.html"):
            fetched = re.findall(
                r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(https?:[^\" >]+)", page.read_text()
            )
            assert fetched == [], page.name

    def test_pages_beside_docs_and_pictures_are_there(self, site: Path) -> None:
        for name in ("contributing", "changelog", "security", "examples", "examples/torch_loop"):
            assert (site / f"{name}.html").exists()
        assert (site / "records" / "images" / "digits" / "scores.png").exists()
        assert not list(site.rglob("*.py"))


def test_the_drawing_is_what_its_program_draws() -> None:
    drawing = loaded(ROOT / "docs" / "site" / "drawing.py")
    assert drawing.TARGET.read_text() == drawing.draw(), "run python docs/site/drawing.py"


def test_docstrings_become_markdown() -> None:
    pytest.importorskip("griffe")
    as_markdown = loaded(ROOT / "docs" / "site" / "docstrings.py").as_markdown
    assert as_markdown("A :math:`p^+`.\n\n    .. math:: a +\n        b\n\nC") == "A $p^+$.\n\n    $$ a + b $$\n\nC"
    assert as_markdown("`NTXentLoss`") == "[`NTXentLoss`][pucl.losses.NTXentLoss]"
    assert as_markdown("``NTXentLoss``, `nothing`") == "``NTXentLoss``, `nothing`"
    assert as_markdown("Example:\n    >>> 1\n") == "Examples:\n    >>> 1\n"


def test_links_that_leave_the_docs_lead_to_their_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")  # As mkdocs does.
    relinked = loaded(ROOT / "docs" / "site" / "hooks.py")._relinked
    page = "[a](losses.md#x) [b](../CONTRIBUTING.md) ![c](../records/x.png) [d](#here) [e](https://x.org/a.md)"
    expected = "[a](losses.md#x) [b](contributing.md) ![c](records/x.png) [d](#here) [e](https://x.org/a.md)"
    assert relinked(page, "docs/images.md") == expected
    assert relinked("[a](torch_loop.py)", "examples/README.md") == "[a](examples/torch_loop.md)"
    assert relinked("[a](docs/images.md) [b](SECURITY.md#x)", "CHANGELOG.md") == "[a](images.md) [b](security.md#x)"
