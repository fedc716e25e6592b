"""Measure what pucl costs, compared with its dense form, with other libraries and with a lower bound.

All contenders run in turn in one process on the same data. Ratios are taken round by round, so that a busy machine or a
changing clock rate slows both sides and cancels.
"""

import argparse
import importlib.metadata
import os
import platform
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.diagnose import DiagnoseSettings, measure_diagnosis
from benchmarks.graph import GraphSettings, measure_graphs
from benchmarks.grid import GridSettings, measure_grid
from benchmarks.loss import LossSettings, measure_losses
from benchmarks.memory import available_memory
from benchmarks.options import Settings, add_options, command_line
from benchmarks.ranking import RankingSettings, measure_ranking
from benchmarks.report import Report
from benchmarks.retrieval import RetrievalSettings, measure_retrieval
from benchmarks.train import TrainSettings, measure_training
from pucl.devices import usable_cores
from pucl.files import write_json

WIDTH = 110  # Characters of a line of text.
LIBRARIES = (
    "pucl",
    "torch",
    "numpy",
    "scikit-learn",
    "torch_geometric",
    "pillow",
    "pytorch-metric-learning",
    "sentence-transformers",
    "lightly",
    "faiss-cpu",
)


SUBJECTS: dict[str, tuple[type[Settings], Callable[[Any, Callable[[str], object]], Report]]] = {
    "loss": (LossSettings, measure_losses),
    "train": (TrainSettings, measure_training),
    "graph": (GraphSettings, measure_graphs),
    "grid": (GridSettings, measure_grid),
    "retrieval": (RetrievalSettings, measure_retrieval),
    "ranking": (RankingSettings, measure_ranking),
    "diagnose": (DiagnoseSettings, measure_diagnosis),
}
"""What can be measured: its settings, and the function that measures it and reports its progress.

A new subject is a new module and a line here. The help text is the docstring of the function.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and return the exit code: 0 done, 1 a check failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True, title="subjects")
    for name, (settings, measure) in SUBJECTS.items():
        command = commands.add_parser(name, help=measure.__doc__, description=measure.__doc__)
        add_options(command, settings)
        command.add_argument("--out", type=Path, metavar="FILE.json", help="write all figures to this file")
    options = vars(parser.parse_args(arguments))
    name, out = options.pop("subject"), options.pop("out")
    try:
        return _run(name, SUBJECTS[name][0](**options), out)
    except (ValueError, OSError) as error:
        print(f"benchmarks {name}: {error}", file=sys.stderr)
        return 2


def _run(name: str, settings: Settings, out: Path | None) -> int:
    """Measure, print the report and write the record; 1 if the figures are not valid."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):  # Raise before minutes are spent.
        raise ValueError(f"out is the file for the figures: expected one in a directory that exists, got {out}")
    values = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(settings).items()}
    machine = _machine() | {"threads": values["threads"]} if "threads" in values else _machine()
    measure: Any = SUBJECTS[name][1]
    report = measure(settings, lambda text: print(f"benchmarks {name}: {text}", file=sys.stderr, flush=True))
    print(report.table(), end="\n\n")
    for note in dict.fromkeys([*report.notes(), *_busy(machine)]):
        print(textwrap.fill(note, width=WIDTH))
    if out is not None:
        record = {
            "command": command_line(name, settings, out),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "settings": values,
            "versions": _versions(),
            "machine": machine,
        }
        write_json(out, record | asdict(report))
        print(f"All figures: {out}")
    failures = report.failures()
    for failure in failures:
        print(f"benchmarks {name}: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _versions() -> dict[str, str]:
    """Versions of Python and of the installed libraries that figures depend on."""
    versions = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _machine() -> dict[str, Any]:
    """Processor, cores, memory, and the load average before the benchmark."""
    return {
        "cpu": _processor_name(),
        "cores": usable_cores(),
        "system": f"{platform.system()} {platform.release()}",
        "available_memory_bytes": available_memory(),
        "load_average_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _busy(machine: dict[str, Any]) -> list[str]:
    """A warning if other programs kept the machine busy before the benchmark began."""
    load, cores = machine["load_average_before"], machine["cores"]
    if load is None or load <= cores / 2:
        return []
    return [
        f"The machine was busy before the benchmark began (load {load:.1f} on {cores} cores), which slows down several "
        f"threads far more than one. Use --threads 1, or repeat this when the machine is idle."
    ]


if __name__ == "__main__":
    sys.exit(main())
