"""Several corrections on the same data and the same seeds: what each was worth."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

import pucl
from pucl import processes
from pucl.data import load
from pucl.experiments.config import ORACLE, PLAIN, ROWS, UNTRAINED, RunConfig, choose
from pucl.experiments.display import Display
from pucl.experiments.run import SILENT, can_be_probed, run
from pucl.experiments.statistics import Difference, Spread
from pucl.files import write_json, write_whole

BASE = PLAIN  # What differences are taken to.


@dataclass(frozen=True, kw_only=True)
class Line:
    """One row of the table.

    Args:
        correction: Its name.
        tau_plus: tau', as it reached the loss; None where nothing was trained.
        linear: Accuracy of a linear classifier on frozen features, in percent.
        knn: Accuracy of a weighted nearest-neighbour classifier, in percent.
        linear_seeds: The linear accuracy of each seed.
        knn_seeds: The nearest-neighbour accuracy of each seed.
        difference: Of the linear accuracy to plain, seed by seed; None for plain itself, or without it.
        floored: Share of anchors at the floor in the last epoch; None where nothing was trained.
        seconds: Of training, for one seed.
    """

    correction: str
    tau_plus: float | None
    linear: Spread
    knn: Spread
    linear_seeds: tuple[float, ...]
    knn_seeds: tuple[float, ...]
    difference: Difference | None
    floored: float | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The table, and the runs it was made of."""

    lines: tuple[Line, ...]
    runs: dict[str, list[str]]

    def as_json(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return asdict(self)


def compare_corrections(
    base: RunConfig,
    corrections: Sequence[str],
    seeds: int,
    out: Path,
    *,
    settings: dict[str, dict[str, float]] | None = None,
    root: Path | None = None,
    device: str = "auto",
    compiled: bool = False,
    display: Display = SILENT,
    command: str = "",
) -> Comparison:
    """Train each correction with the same seeds, data order and views, and put the results side by side.

    What is finished is not run again, what was interrupted goes on.

    Args:
        base: Everything that the runs have in common.
        corrections: Which rows to run, of the table of corrections, ``"oracle"`` and ``"untrained"``.
        seeds: How many seeds, from 0.
        out: Where the runs are kept, each in a directory of its own.
        settings: Settings of corrections by name, where the defaults will not do.
        root: Where data are.
        device: Where to train; see `pucl.devices.choose_device`.
        compiled: Let torch.compile translate encoder and head first.
        display: Shows how it goes.
        command: What was asked for, for the record.
    """
    if seeds < 1:
        raise ValueError(f"seeds is how often each training is repeated: expected at least 1, got {seeds}")
    for name in corrections:
        choose("correction", name, ROWS)
    if not corrections or len(set(corrections)) < len(corrections):
        raise ValueError(f"corrections are the rows: expected at least one, each once, got {', '.join(corrections)}")
    processes.from_first(lambda: _check_labels(base, corrections, root))  # Now, and not after the first row.
    results: dict[str, list[dict[str, Any]]] = {}
    places: dict[str, list[str]] = {}
    total = len(corrections) * seeds
    for seed in range(seeds):
        for name in corrections:
            done = sum(map(len, results.values()))
            config = replace(base, correction=name, settings=(settings or {}).get(name, {}), seed=seed)
            place = Path(name) / f"seed-{seed}"
            label = f"{name}, seed {seed} ({done + 1} of {total})"
            result = run(
                config, out / place, root=root, device=device, compiled=compiled, display=display.labelled(label)
            )
            results.setdefault(name, []).append(result)
            places.setdefault(name, []).append(str(place))
    comparison = Comparison(lines=tuple(_line(name, results) for name in corrections), runs=places)
    if processes.rank() > 0:
        return comparison
    about = {"command": command, "pucl": pucl.__version__, "torch": str(torch.__version__), "base": base.as_json()}
    write_json(out / "comparison.json", about | comparison.as_json())
    write_whole(out / "comparison.csv", as_csv(comparison).encode())
    return comparison


def _check_labels(base: RunConfig, corrections: Sequence[str], root: Path | None) -> None:
    """Refuse data of which there is nothing to compare."""
    data = load(base.data, root=root, image_size=base.image_size)
    if not can_be_probed(data):
        raise ValueError(
            f"a comparison is of accuracies: expected labels of two classes or more in training and test images, "
            f"got {base.data} without"
        )
    if ORACLE in corrections and data.pretrain.labels is None:
        rest = ",".join(name for name in corrections if name != ORACLE)
        raise ValueError(
            f"the oracle knows the labels of what it is trained on, which {base.data} has not: leave it out with "
            f"--corrections {rest}"
        )


def _line(name: str, results: dict[str, list[dict[str, Any]]]) -> Line:
    of_this = results[name]
    linear, knn = ([100 * result[probe] for result in of_this] for probe in ("linear", "knn"))
    base = [100 * result["linear"] for result in results[BASE]] if BASE in results and name != BASE else None
    trained = name != UNTRAINED
    return Line(
        correction=name,
        tau_plus=of_this[0].get("tau_plus") if trained and name != ORACLE else None,
        linear=Spread.of(linear),
        knn=Spread.of(knn),
        linear_seeds=tuple(linear),
        knn_seeds=tuple(knn),
        difference=None if base is None else Difference.between(linear, base),
        floored=sum(result.get("floored", 0.0) for result in of_this) / len(of_this) if trained else None,
        seconds=sum(result["seconds"] for result in of_this) / len(of_this),
    )


def as_csv(comparison: Comparison) -> str:
    """The table for a spreadsheet."""
    text = io.StringIO()
    columns = ["correction", "tau_plus", "linear", "linear_sd", "knn", "knn_sd", "seeds"]
    columns += ["difference", "difference_low", "difference_high", "floored", "seconds"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for line in comparison.lines:
        difference = line.difference
        writer.writerow(
            [line.correction, line.tau_plus, line.linear.mean, line.linear.deviation, line.knn.mean, line.knn.deviation]
            + [line.linear.count]
            + ([difference.mean, difference.low, difference.high] if difference else ["", "", ""])
            + [line.floored, line.seconds]
        )
    return text.getvalue()


def as_text(comparison: Comparison) -> str:
    """The table for a terminal."""
    header = ("correction", "tau'", "linear, %", "kNN, %", "n", "to plain (95 % interval)", "floored", "s/run")
    rows = [header, *(_cells(line) for line in comparison.lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _cells(line: Line) -> tuple[str, ...]:
    difference = line.difference
    if difference is None:
        to_plain = ""
    elif difference.low is None or difference.high is None:
        to_plain = f"{difference.mean:+.2f} (one seed)"
    else:
        to_plain = f"{difference.mean:+.2f} ({difference.low:+.2f} to {difference.high:+.2f})"
    return (
        line.correction,
        "" if line.tau_plus is None else f"{line.tau_plus:.3f}",
        f"{line.linear.mean:.2f} ± {line.linear.deviation:.2f}",
        f"{line.knn.mean:.2f} ± {line.knn.deviation:.2f}",
        str(line.linear.count),
        to_plain,
        "" if line.floored is None else f"{line.floored:.1%}",
        f"{line.seconds:.0f}",
    )
