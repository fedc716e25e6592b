"""The paper's ablations for SimCLR: the prior and the label frequency, and how many unlabelled samples there are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pucl.config import PLAIN, UNTRAINED, RunConfig, choose
from pucl.frameworks.recipes import recipe
from pucl.paper.table1 import BUDGETS, STAND_IN, is_there
from pucl.runs.tables import Part

ALPHAS = (0.05, 0.1, 0.12, 0.15, 0.2)
FREQUENCIES = (0.01, 0.02, 0.1)
UNLABELLED = (62, 126, 254, 510)
FREQUENCY = 0.01  # c where the number of unlabelled samples varies.
SEEDS = 2

Cell = tuple[float, float]
"""The two settings of a row: (alpha, c), or (N, alpha); alpha 0 is plain."""


def alpha_c_rows(data: str, settings: Mapping[str, Any], recipe_name: str) -> dict[str, RunConfig]:
    """All alpha with all c, beside plain and the untrained encoder."""
    corrected = {
        f"alpha {alpha:g}, c {c:g}": {"correction": "pucl", "settings": {"alpha": alpha, "c": c}}
        for c in FREQUENCIES
        for alpha in ALPHAS
    }
    kinds: dict[str, dict[str, Any]] = {UNTRAINED: {"correction": UNTRAINED}, PLAIN: {"correction": PLAIN}} | corrected
    return {name: recipe("simclr", data, recipe_name, **(dict(settings) | kind)) for name, kind in kinds.items()}


def unlabelled_rows(data: str, settings: Mapping[str, Any], recipe_name: str) -> dict[str, RunConfig]:
    """All numbers of unlabelled samples, which are 2 (B - 1) in a batch of B, with all alpha and plain."""
    rows = {}
    for count in UNLABELLED:
        batch = {"batch_size": count // 2 + 1}
        rows[f"N {count}, plain"] = recipe(
            "simclr", data, recipe_name, **(dict(settings) | batch | {"correction": PLAIN})
        )
        for alpha in ALPHAS:
            chosen = {"correction": "pucl", "settings": {"alpha": alpha, "c": FREQUENCY}}
            rows[f"N {count}, alpha {alpha:g}"] = recipe(
                "simclr", data, recipe_name, **(dict(settings) | batch | chosen)
            )
    return rows


SUBJECTS = {"alpha-c": alpha_c_rows, "unlabelled": unlabelled_rows}
"""By name: what makes the rows."""


def part_of_ablation(
    subject: str,
    data: str = "cifar10",
    *,
    budget: str = "small",
    seeds: int | None = None,
    changes: Mapping[str, Any] | None = None,
    root: Path | None = None,
) -> Part:
    """What to run.

    Args:
        subject: Out of `SUBJECTS`.
        data: A known name or a path.
        budget: As for Table 1.
        seeds: How many, from 0; None for what the budget has, two at most.
        changes: In the settings of the budget.
        root: Where data are, to see whether they are there.
    """
    choose("ablation", subject, SUBJECTS)
    choose("budget", budget, BUDGETS)
    plan, note = BUDGETS[budget], ""
    if plan.stand_in and not is_there(data, root):
        data, note = STAND_IN, f"bundled, in place of {data}, which is absent"
    settings = plan.settings("simclr", data) | dict(changes or {})
    return Part(
        name=f"simclr-{Path(data).name}",
        rows=SUBJECTS[subject](data, settings, plan.recipe),
        base=PLAIN if subject == "alpha-c" else f"N {UNLABELLED[-1]}, plain",
        seeds=min(SEEDS, plan.seeds) if seeds is None else seeds,
        note=note,
    )


def cells(rows: Mapping[str, RunConfig], subject: str) -> dict[str, Cell]:
    """By the name of a row, its two settings; rows that have none, such as the untrained encoder, are left out."""
    found = {}
    for name, config in rows.items():
        alpha, c = (float(config.settings.get(name) or 0.0) for name in ("alpha", "c"))
        if subject == "unlabelled":
            found[name] = (2.0 * (config.batch_size - 1), alpha)
        elif config.correction not in (PLAIN, UNTRAINED):
            found[name] = (alpha, c)
    return found
