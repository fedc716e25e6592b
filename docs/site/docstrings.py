"""Docstrings as Markdown: formulas and examples are in the form of Sphinx and Google, and names become links."""

import importlib
import re

import griffe

MODULES = ("pucl.losses", "pucl.functional", "pucl.corrections", "pucl.adapters")
"""Those whose public names are explained in the reference."""

LINKS = {
    alias: f"{module}.{name}"
    for module in MODULES
    for name in importlib.import_module(module).__all__
    for alias in (name, f"pucl.{name}", f"{module}.{name}")
}
"""Names as docstrings write them, and as the reference knows them."""


class Markdown(griffe.Extension):
    """Rewrite each docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Formulas between dollars, and the heading under which examples are shown as code."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """A docstring in which Markdown finds the formulas, and griffe the examples.

    Example:
        >>> as_markdown("Half of :math:`x`.")
        'Half of $x$.'
    """
    text = re.sub(r"^( *)\.\. math:: *(.+?)(?=\n\s*\n|\Z)", _displayed, text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r":math:`([^`]+)`", r"$\1$", text)
    text = re.sub(r"(?<!`)`([\w.]+)`(?!`)", _linked, text)
    return re.sub(r"^( *)Example::?$", r"\1Examples:", text, flags=re.MULTILINE)


def _linked(found: re.Match[str]) -> str:
    name = found[1]
    return f"[`{name}`][{LINKS[name]}]" if name in LINKS else found[0]


def _displayed(found: re.Match[str]) -> str:
    indent, formula = found.groups()
    return f"{indent}$$ {' '.join(formula.split())} $$"
