"""What mkdocs needs to make a site of these pages; see mkdocs.yml.

Pages stay readable where they are, in the repository. So links that leave docs/ are led to copies in the site, the
reference is made from the code, and formulas become MathML, which browsers show without any script of ours.
"""

import contextlib
import html
import importlib
import io
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink

import pucl
from docstrings import REFERENCE
from pucl.cli import main
from pucl.commands.parser import COMMANDS
from pucl.frameworks import FRAMEWORKS

ROOT = Path(__file__).resolve().parents[2]

BESIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
}
"""Pages that stand beside docs/ in the repository, and their names in the site."""

BRACKETS = (("span", r"\(", r"\)"), ("div", r"\[", r"\]"))
"""How arithmatex marks formulas in a line, and those that stand alone."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages beside docs/, the pictures of records/, and the reference."""
    for origin, name in BESIDE.items():
        files.append(File.generated(config, name, content=_relinked((ROOT / origin).read_text(), origin)))
    for picture in sorted((ROOT / "records").rglob("*.png")):
        files.append(File.generated(config, str(picture.relative_to(ROOT)), abs_src_path=str(picture)))
    for name, text in (*_examples(), *_reference()):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Lead links that leave docs/ to their copies in the site."""
    return _relinked(markdown, f"docs/{page.file.src_uri}") if page.file.generated_by is None else markdown


def on_page_content(text: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Turn formulas into MathML, in headings of the table of contents too, and keep numbers with their spread."""
    for heading in _headings(page.toc):
        heading.title = re.sub(r"\\\((.*?)\\\)", lambda found: _mathml(found[1]), heading.title)
    inline, block = (rf'<{tag} class="arithmatex">\\{a}(.*?)\\{b}</{tag}>' for tag, a, b in BRACKETS)
    text = re.sub(inline, lambda found: _mathml(found[1]), text, flags=re.DOTALL)
    text = re.sub(block, lambda found: _mathml(found[1], "block"), text, flags=re.DOTALL)
    return re.sub(r"<td.*?</td>", lambda cell: re.sub(r" (±|to) (?=[+-]?\d)", r"&nbsp;\1&nbsp;", cell[0]), text)


def _relinked(text: str, origin: str) -> str:
    """A page's text with links as they are in the site, where pages of docs/ and those beside it are in one folder."""

    def link(found: re.Match[str]) -> str:
        path = os.path.normpath(Path(origin).parent / found[1])
        path = f"{path.removesuffix('.py')}.md" if path.startswith("examples/") and path.endswith(".py") else path
        return f"]({BESIDE.get(path, path.removeprefix('docs/'))}{found[2]})"

    return re.sub(r"\]\((?!https?:|#)([^)#\s]+)((?:#[^)\s]*)?)\)", link, text)


def _headings(entries: Iterable[AnchorLink]) -> Iterator[AnchorLink]:
    for entry in entries:
        yield entry
        yield from _headings(entry.children)


def _mathml(formula: str, display: Literal["inline", "block"] = "inline") -> str:
    return convert(html.unescape(formula).strip(), display=display)


def _examples() -> Iterator[tuple[str, str]]:
    """A page for each example, with its code."""
    for origin in sorted((ROOT / "examples").glob("*.py")):
        yield f"examples/{origin.stem}.md", f"# {origin.name}\n\n```python\n{origin.read_text()}```"


def _reference() -> Iterator[tuple[str, str]]:
    """The pages of the reference: every public name, in order of the alphabet."""
    explained = set(REFERENCE)
    for page, (title, module, purpose) in REFERENCE.items():
        names = importlib.import_module(module).__all__
        explained.update(names)
        yield f"reference/{page}.md", "\n\n".join([f"# {title}", purpose, *(f"::: {module}.{name}" for name in names)])
    others = [f"::: pucl.{name}" for name in pucl.__all__ if name not in explained]
    yield "reference/pucl.md", "\n\n".join(["# Diagnosis and runs", *others])
    os.environ["COLUMNS"] = "82"  # Of the terminal for which help is wrapped.
    helps = [_help(name) for name in COMMANDS] + [_help("train", framework) for framework in FRAMEWORKS]
    yield "reference/commands.md", "\n\n".join(["# Commands", *helps])


def _help(*words: str) -> str:
    """The help of a command, or of a command and a framework."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return f"## pucl {' '.join(words)}\n\n```text\n{text.getvalue()}```"
