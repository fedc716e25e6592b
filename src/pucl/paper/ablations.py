"""The paper's ablations for SimCLR: prior and label frequency, and the number of unlabelled samples."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pucl.config import NOT_TRAINED, ORACLE, ORACLES, PLAIN, UNTRAINED, RunConfig, check_known
from pucl.frameworks.recipes import recipe
from pucl.paper import table1
from pucl.paper.table1 import SHORT_SIMCLR, STAND_IN, Budget, is_there
from pucl.runs.tables import Part

ALPHAS = (0.05, 0.1, 0.12, 0.15, 0.2)
FREQUENCIES = (0.01, 0.02, 0.1)
UNLABELLED = (62, 126, 254, 510)
FREQUENCY = 0.01  # c while the number of unlabelled samples varies.
YARDSTICK = "retrieval"  # False negatives hardly move a linear classifier.

BUDGETS = table1.BUDGETS | {
    # Few small images leave time for epochs, with which false negatives cost retrieval.
    "small": Budget(
        purpose="2,000 images of Fashion-MNIST at 14 pixels, 40 epochs: a quarter of an hour on two cores",
        recipe="small",
        changes={"image_size": 14, "limit": 2000, "epochs": 40, "width": 16, "monitor": 0},
        by_framework={"simclr": SHORT_SIMCLR},
    )
}

DATA = {"small": "fashion-mnist"}
"""The data of a budget, where they are not `USUAL_DATA`: an encoder of CIFAR needs more work to be worth correcting."""
USUAL_DATA = "cifar10"


def alpha_c_rows(configure: Callable[..., RunConfig]) -> dict[str, RunConfig]:
    """All pairs of alpha and c, with plain, the oracle and the untrained encoder."""
    rows = {name: configure(correction=name) for name in (UNTRAINED, PLAIN, ORACLE)}
    for c in FREQUENCIES:
        for alpha in ALPHAS:
            rows[f"alpha {alpha:g}, c {c:g}"] = configure(correction="pucl", settings={"alpha": alpha, "c": c})
    return rows


def unlabelled_rows(configure: Callable[..., RunConfig]) -> dict[str, RunConfig]:
    """All pairs of N and alpha, with plain and the oracle. A batch of B images has N = 2 (B - 1) unlabelled samples."""
    rows = {}
    for count in UNLABELLED:
        size = count // 2 + 1
        for name in (PLAIN, ORACLE):
            rows[f"N {count}, {name}"] = configure(correction=name, batch_size=size)
        for alpha in ALPHAS:
            settings = {"alpha": alpha, "c": FREQUENCY}
            rows[f"N {count}, alpha {alpha:g}"] = configure(correction="pucl", settings=settings, batch_size=size)
    return rows


SUBJECTS = {"alpha-c": alpha_c_rows, "unlabelled": unlabelled_rows}
"""The functions that make the rows, by ablation."""


def part_of_ablation(
    subject: str,
    data: str | None = None,
    *,
    budget: str = "small",
    seeds: int | None = None,
    changes: Mapping[str, Any] | None = None,
    root: Path | None = None,
) -> Part:
    """The runs of an ablation.

    Args:
        subject: A key of `SUBJECTS`.
        data: A known name or a path; None for those of the budget.
        budget: A key of `BUDGETS`.
        seeds: Number of seeds, from 0; None for the number of the budget.
        changes: Changes to the settings of the budget.
        root: Directory of the data, to look for the data set.
    """
    check_known("ablation", subject, SUBJECTS)
    check_known("budget", budget, BUDGETS)
    plan, note = BUDGETS[budget], ""
    data = DATA.get(budget, USUAL_DATA) if data is None else data
    if plan.stand_in and not is_there(data, root):
        data, note = STAND_IN, f"bundled, in place of {data}, which is absent"
    settings = plan.settings("simclr", data) | dict(changes or {})

    def configure(**row: Any) -> RunConfig:
        return recipe("simclr", data, plan.recipe, **(settings | row))

    return Part(
        name=f"simclr-{Path(data).name}",
        rows=SUBJECTS[subject](configure),
        base=PLAIN if subject == "alpha-c" else f"N {UNLABELLED[-1]}, plain",
        seeds=plan.seeds if seeds is None else seeds,
        note=note,
        yardstick=YARDSTICK,
    )


def alpha_and_c(rows: Mapping[str, RunConfig]) -> dict[str, tuple[float, float]]:
    """Alpha and c of each row that has them, by its name."""
    return {
        name: (float(config.settings["alpha"] or 0.0), float(config.settings["c"] or 0.0))
        for name, config in rows.items()
        if config.correction not in (PLAIN, *ORACLES, *NOT_TRAINED)
    }


def lines_over_unlabelled(rows: Mapping[str, RunConfig]) -> dict[str, tuple[int, str]]:
    """The number of unlabelled samples of each row, and the line that it is a point of, by its name."""
    return {
        name: (
            2 * (config.batch_size - 1),
            f"alpha = {config.settings['alpha']:g}" if "alpha" in config.settings else config.correction,
        )
        for name, config in rows.items()
    }
