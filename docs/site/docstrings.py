"""Docstrings as Markdown: formulas and examples are in the form of Sphinx and Google, and names become links."""

import importlib
import re

import griffe

REFERENCE = {
    "losses": ("Losses", "pucl.losses", "Modules that are called `loss(z0, z1)`. All of them are names of `pucl` too."),
    "functional": ("Functions", "pucl.functional", "For anchors, positives and unlabelled samples of your own making."),
    "corrections": ("Corrections", "pucl.corrections", "How unlabelled samples are treated, and what a new one needs."),
    "pairs": ("Pairs", "pucl.pairs", "What is known of samples that belong together."),
    "adapters": ("Adapters", "pucl.adapters", "The losses behind the calls of other libraries."),
    "sentence-transformers": (
        "sentence-transformers",
        "pucl.adapters.sentence_transformers",
        "Losses for its trainer.",
    ),
}
"""Pages of the reference: title, the module whose names it explains, and what they are."""

LINKS = {
    alias: f"{module}.{name}"
    for _, module, _ in REFERENCE.values()
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
