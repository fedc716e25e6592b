"""Train one encoder and evaluate it.

FRAMEWORK is simclr, moco or cmc. DATA is a known name (digits, cifar10, ...; see `pucl data list`) or a path: a folder
of pictures, or a .npz file. The settings are those of the reference programs unless given.

The run's directory holds the configuration, metrics (one line of JSON for each epoch), the encoder, embeddings and the
result. Ctrl-C saves first; --resume goes on.

Many devices: `torchrun --nproc-per-node 8 --max-restarts 3 -m pucl train ...` is one training whose batch is shared by
all processes, with the result of one process that has it all. A process that dies costs the work since the last
checkpoint.
"""

import argparse
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pucl import processes
from pucl.corrections import CORRECTIONS
from pucl.devices import choose_device
from pucl.experiments.config import RunConfig, settings_of
from pucl.experiments.display import Display
from pucl.experiments.recipes import RECIPES, recipe
from pucl.experiments.run import run as run_training
from pucl.progress import Line

SETTINGS = sorted({field.name for kind in CORRECTIONS.values() for field in dataclasses.fields(kind)} - {"rescale"})
"""Settings of corrections that can be given: alpha, beta, c, lower, tau_plus, upper."""

NOT_OPTIONS = {"framework", "data", "settings", "correction", "seed"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl train``."""
    add_run_arguments(parser)
    parser.add_argument("--correction", default="pucl", metavar="NAME", help="which correction (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the run's directory (default: runs/FRAMEWORK-DATA-...)"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument(
        "--checkpoint-seconds",
        type=float,
        default=60.0,
        metavar="S",
        help="how much work a kill may cost at most (default: %(default)g)",
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what every training has: the settings of a run and of corrections."""
    parser.add_argument("framework", metavar="FRAMEWORK", help="simclr, moco or cmc")
    parser.add_argument("data", metavar="DATA", help="a known name, a folder of pictures, or a .npz file")
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument(
        "--recipe",
        metavar="NAME",
        help=f"where settings start from: {', '.join(RECIPES)} (default: reference, and less work on the digits)",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps (default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="let torch.compile translate the encoder first")
    group = parser.add_argument_group("settings of the run (default: those of the reference programs)")
    meanings = _meanings(RunConfig.__doc__ or "")
    for field in dataclasses.fields(RunConfig):
        if field.name not in NOT_OPTIONS:
            kind = _kind(field.type)
            group.add_argument(
                f"--{field.name.replace('_', '-')}",
                dest=field.name,
                help=meanings[field.name],
                **(
                    {"action": argparse.BooleanOptionalAction}
                    if kind is bool
                    else {"type": kind, "metavar": field.name.upper()}
                ),
            )
    group = parser.add_argument_group("settings of the corrections")
    for name in SETTINGS:
        group.add_argument(f"--{name.replace('_', '-')}", dest=f"setting_{name}", type=float, metavar=name.upper())


def changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of a run that were given."""
    given = {field.name: getattr(arguments, field.name, None) for field in dataclasses.fields(RunConfig)}
    return {name: value for name, value in given.items() if value is not None and name not in NOT_OPTIONS}


def correction_settings(arguments: argparse.Namespace, correction: str) -> dict[str, float]:
    """The settings that were given and that this correction has."""
    return {name: value for name, value in given_settings(arguments).items() if name in settings_of(correction)}


def given_settings(arguments: argparse.Namespace) -> dict[str, float]:
    """All settings of corrections that were given."""
    given = {name: getattr(arguments, f"setting_{name}") for name in SETTINGS}
    return {name: value for name, value in given.items() if value is not None}


def check_settings(arguments: argparse.Namespace, corrections: Sequence[str]) -> None:
    """Refuse a setting that none of these corrections has: it would be forgotten without a word."""
    taken = {name for correction in corrections for name in settings_of(correction)}
    for name in given_settings(arguments):
        if name not in taken:
            known = ", ".join(sorted(taken)) or "none"
            raise ValueError(
                f"--{name.replace('_', '-')} is no setting of {', '.join(corrections)}, which have {known}"
            )


def _meanings(docstring: str) -> dict[str, str]:
    """What each argument of a class means, as its docstring says."""
    text = inspect.cleandoc(docstring).split("Args:")[1]
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, flags=re.MULTILINE)
    return {name: " ".join(words.split()).replace("`", "").replace("%", "%%") for name, words in found}


def run(arguments: argparse.Namespace) -> int:
    """Train, evaluate, and say where everything is."""
    check_settings(arguments, [arguments.correction])
    config = recipe(
        arguments.framework,
        arguments.data,
        arguments.recipe,
        correction=arguments.correction,
        settings=correction_settings(arguments, arguments.correction),
        seed=arguments.seed,
        **changes(arguments),
    )
    name = f"{config.framework}-{Path(config.data).name}-{config.correction}-seed-{config.seed}"
    out = arguments.out or Path("runs") / name
    with processes.torchrun_world(choose_device(arguments.device)):
        first = processes.rank() == 0
        display = Display(Line() if first else None)
        result = run_training(
            config,
            out,
            root=arguments.root,
            resume=arguments.resume,
            checkpoint_seconds=arguments.checkpoint_seconds,
            device=arguments.device,
            compiled=arguments.compile,
            display=display,
        )
    if not first:
        return 0
    display.close()
    for probe, meaning in (("linear", "linear classifier"), ("knn", "nearest neighbours")):
        if probe in result:
            print(f"{meaning}: {result[probe]:.2%} of the test images")
    print(f"everything is in {out}")
    return 0


def _kind(annotation: Any) -> Any:
    """The type that reads an option: that of the field, without None; a floor is a word or a number."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        kinds = [kind for kind in typing.get_args(annotation) if kind is not type(None)]
        return _word_or_number if len(kinds) > 1 else _kind(kinds[0])
    return str if typing.get_origin(annotation) is typing.Literal else annotation


def _word_or_number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text
