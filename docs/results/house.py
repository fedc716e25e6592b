"""How large the house is, and how far one has to walk in it."""

from typing import Any

from results.words import markdown

WALKS = {
    "loss": "`PUCLLoss()(z0, z1)` and its gradient",
    "step": "one training step of SimCLR",
    "train": "`pucl train simclr digits`, up to its first step",
    "compare": "`pucl compare infograph shapes`",
}


def house_page(
    walk: dict[str, Any], walk_before: dict[str, Any], sizes: dict[str, Any], sizes_before: dict[str, Any]
) -> str:
    """docs/house.md from records/house."""
    walks = [
        [
            words,
            *(f"{found[name]['files']} files, {found[name]['functions']} functions" for found in (walk_before, walk)),
        ]
        for name, words in WALKS.items()
    ]
    names = [*sizes_before, *(name for name in sizes if name not in sizes_before)]
    order = sorted(names, key=lambda name: (not name.startswith("pucl/"), name))
    rows = [[name, *(_lines(found.get(name)) for found in (sizes_before, sizes))] for name in order]
    return "\n".join(
        [
            "# The house in numbers",
            "",
            "Version 0.1 is *before*. The reasons are in [decisions](decisions.md#the-house).",
            "",
            "What a reader passes, counted with a trace by `python scripts/walk.py`: functions of pucl that are "
            "called, and the files they stand in.",
            "",
            *markdown(["walk", "before", "now"], walks),
            "",
            "Lines of Python, counted by `python scripts/sizes.py`; in brackets those that are neither empty nor of a "
            "docstring.",
            "",
            *markdown(["folder", "before", "now"], rows),
            "",
        ]
    )


def _lines(found: dict[str, int] | None) -> str:
    if found is None:
        return ""
    return f"{found['lines']:,} ({found['lines'] - found['docstrings'] - found['empty']:,})"
