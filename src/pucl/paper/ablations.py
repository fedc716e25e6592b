"""The paper's ablations for SimCLR: prior and label frequency, and the number of unlabelled samples."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pucl.config import PLAIN, UNTRAINED, RunConfig, check_known
from pucl.frameworks.recipes import recipe
from pucl.paper.table1 import BUDGETS, STAND_IN, is_there
from pucl.runs.tables import Part

ALPHAS = (0.05, 0.1, 0.12, 0.15, 0.2)
FREQUENCIES = (0.01, 0.02, 0.1)
UNLABELLED = (62, 126, 254, 510)
FREQUENCY = 0.01  # c while the number of unlabelled samples varies.
SEEDS = 2

Cell = tuple[float, float]
"""The two settings of a row: (alpha, c), or (N, alpha); alpha 0 is plain."""


def alpha_c_rows(configure: Callable[..., RunConfig]) -> dict[str, RunConfig]:
    """All pairs of alpha and c, with plain and the untrained encoder."""
    rows = {name: configure(correction=name) for name in (UNTRAINED, PLAIN)}
    for c in FREQUENCIES:
        for alpha in ALPHAS:
            rows[f"alpha {alpha:g}, c {c:g}"] = configure(correction="pucl", settings={"alpha": alpha, "c": c})
    return rows


def unlabelled_rows(configure: Callable[..., RunConfig]) -> dict[str, RunConfig]:
    """All pairs of N and alpha, with plain. A batch of B images has N = 2 (B - 1) unlabelled samples per anchor."""
    rows = {}
    for count in UNLABELLED:
        size = count // 2 + 1
        rows[f"N {count}, plain"] = configure(correction=PLAIN, batch_size=size)
        for alpha in ALPHAS:
            settings = {"alpha": alpha, "c": FREQUENCY}
            rows[f"N {count}, alpha {alpha:g}"] = configure(correction="pucl", settings=settings, batch_size=size)
    return rows


SUBJECTS = {"alpha-c": alpha_c_rows, "unlabelled": unlabelled_rows}
"""The functions that make the rows, by ablation."""


def part_of_ablation(
    subject: str,
    data: str = "cifar10",
    *,
    budget: str = "small",
    seeds: int | None = None,
    changes: Mapping[str, Any] | None = None,
    root: Path | None = None,
) -> Part:
    """The runs of an ablation.

    Args:
        subject: A key of `SUBJECTS`.
        data: A known name or a path.
        budget: As for Table 1.
        seeds: Number of seeds, from 0; None for the number of the budget, but at most two.
        changes: Changes to the settings of the budget.
        root: Directory of the data, to look for the data set.
    """
    check_known("ablation", subject, SUBJECTS)
    check_known("budget", budget, BUDGETS)
    plan, note = BUDGETS[budget], ""
    if plan.stand_in and not is_there(data, root):
        data, note = STAND_IN, f"bundled, in place of {data}, which is absent"
    settings = plan.settings("simclr", data) | dict(changes or {})

    def configure(**row: Any) -> RunConfig:
        return recipe("simclr", data, plan.recipe, **(settings | row))

    return Part(
        name=f"simclr-{Path(data).name}",
        rows=SUBJECTS[subject](configure),
        base=PLAIN if subject == "alpha-c" else f"N {UNLABELLED[-1]}, plain",
        seeds=min(SEEDS, plan.seeds) if seeds is None else seeds,
        note=note,
        yardstick="linear",
    )


def cells(rows: Mapping[str, RunConfig], subject: str) -> dict[str, Cell]:
    """The two settings of each row, by its name. Rows without them, such as the untrained encoder, are skipped."""
    found = {}
    for name, config in rows.items():
        alpha, c = (float(config.settings.get(name) or 0.0) for name in ("alpha", "c"))
        if subject == "unlabelled":
            found[name] = (2.0 * (config.batch_size - 1), alpha)
        elif config.correction not in (PLAIN, UNTRAINED):
            found[name] = (alpha, c)
    return found
