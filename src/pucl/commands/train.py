"""Train one encoder and evaluate it.

Each framework has settings of its own: `pucl train FRAMEWORK --help` shows them.

The settings may be in a file of TOML: `pucl train --config run.toml`, with DATA and other options or without. Each run
writes such a file, run.toml, into its directory.

The run's directory holds the configuration, metrics (a line of JSON for each epoch), the encoder, embeddings and the
result. Ctrl-C saves first; --resume continues.

Many devices: `torchrun --nproc-per-node 8 --max-restarts 3 -m pucl train ...` is one training whose batch is shared by
all processes. Its result is that of one process with the whole batch. If a process dies, the work since the last
checkpoint is lost.
"""

import argparse
from pathlib import Path

from pucl import processes
from pucl.commands.configfile import add_config, check_encoder, fill_in, with_framework
from pucl.commands.frameworks import OptionGroups, add_frameworks, changes, rows_of, settings_by_row
from pucl.commands.naming import name_of_changes
from pucl.commands.options import add_checkpoint_seconds, loggers_of
from pucl.config import RunConfig
from pucl.devices import choose_device
from pucl.evaluation import known_numbers, numbers_in
from pucl.frameworks import FRAMEWORKS, modality_of
from pucl.frameworks.kind import FrameworkKind
from pucl.frameworks.recipes import modalities_of, recipe
from pucl.progress import StatusArea
from pucl.runs.display import Display
from pucl.runs.run import run as run_training
from pucl.texts import percent, say, table

EXAMPLES = (
    "pucl train simclr --help",
    "pucl train simclr digits",
    "pucl train infograph ENZYMES --correction plain",
    "pucl train simclr --config runs/first/run.toml --seed 1",
)
EXAMPLES_OF_FRAMEWORK = (
    "{data}",
    "{data} --correction plain --seed 1",
    "{path} --correction pucl --alpha 0.2 --out runs/first",
    "{path} --resume",
    "--config run.toml --seed 1",
)


expand = with_framework
"""Completes the arguments before they are parsed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl train``."""
    add_frameworks(parser, _add_own, EXAMPLES_OF_FRAMEWORK)


def _add_own(groups: OptionGroups, kind: FrameworkKind) -> None:
    rows = rows_of(modalities_of(kind))
    names = f"one of {', '.join(rows)} (default: {kind.correction})"
    groups["correction"].add_argument("--correction", choices=rows, metavar="NAME", help=names)
    run = groups["run"]
    run.add_argument("--seed", type=int, metavar="N", help="seed of all random numbers (default: 0)")
    out = "the run's directory (default: runs/FRAMEWORK-DATA-CORRECTION-seed-N, and the settings that were given)"
    run.add_argument("--out", type=Path, metavar="DIR", help=out)
    add_config(run)
    run.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    add_checkpoint_seconds(run)


def configuration_of(arguments: argparse.Namespace) -> RunConfig:
    """What the arguments and their file of settings ask for. The arguments are filled in."""
    fill_in(arguments, {"correction": FRAMEWORKS[arguments.framework].correction, "seed": 0})
    config = recipe(
        arguments.framework,
        arguments.data,
        arguments.recipe,
        correction=arguments.correction,
        settings=settings_by_row(arguments, [arguments.correction])[arguments.correction],
        seed=arguments.seed,
        **changes(arguments),
    )
    check_encoder(config, arguments)
    return config


def run(arguments: argparse.Namespace) -> int:
    """Train, evaluate, and print the accuracies and the run's directory."""
    config = configuration_of(arguments)
    name = f"{config.framework}-{Path(config.data).name}-{config.correction}-seed-{config.seed}"
    out = arguments.out or Path("runs") / (name + name_of_changes(config, arguments.recipe))
    with (
        processes.torchrun_world(choose_device(arguments.device)),
        Display(StatusArea() if processes.rank() == 0 else None) as display,
    ):
        first = processes.rank() == 0
        result = run_training(
            config,
            out,
            root=arguments.root,
            resume=arguments.resume,
            checkpoint_seconds=arguments.checkpoint_seconds,
            device=arguments.device,
            compiled=arguments.compile,
            log=loggers_of(arguments),
            display=display,
        )
    if not first:
        return 0
    known = known_numbers()
    rows = [[known[name].name, percent(result[name])] for name in numbers_in([result])]
    if rows:
        say(table([["probe", f"on {modality_of(config).probed_on}"], *rows]))
    if report := result.get("correction.report"):
        say(f"{config.correction}, in the last epoch: {report}")
    if result.get("correction.removed") == 0:
        say(
            f"at the end nothing was corrected: more epochs may help, or an encoder that separates classes better; "
            f"pucl diagnose {out} says what its embeddings show"
        )
    say(f"everything is in {out}")
    return 0
