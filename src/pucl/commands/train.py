"""Train one encoder and evaluate it.

FRAMEWORK is simclr, moco or cmc for images, infograph for graphs. DATA is a known name (digits, cifar10, ENZYMES, ...;
see `pucl data list`) or a path: a folder of pictures, a .npz file, or a directory with graphs as NAME_A.txt and so on.
The settings are those of the reference programs unless given.

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
from collections.abc import Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any

from pucl import processes
from pucl.commands.naming import suffix_of
from pucl.config import RunConfig, Setting, settings_of
from pucl.corrections import CORRECTIONS
from pucl.devices import choose_device
from pucl.frameworks import FRAMEWORKS
from pucl.frameworks.recipes import RECIPES, all_field_names, recipe
from pucl.progress import StatusArea
from pucl.runs.build import modality_of
from pucl.runs.display import Display
from pucl.runs.lines import PROBES
from pucl.runs.run import run as run_training
from pucl.texts import percent, say

SETTINGS = sorted({field.name for kind in CORRECTIONS.values() for field in dataclasses.fields(kind)})
"""Settings of corrections that can be given: alpha, beta, c, lower, rescale, tau_plus, upper."""

NOT_OPTIONS = {"framework", "data", "settings", "correction", "seed"}

OPTION_OF = {"monitor": "--monitor-times"}
"""By field: its option, where that is not the field's name. torchrun takes --monitor for options of its own that begin
so and refuses it; without torchrun argparse accepts --monitor as an abbreviation."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl train``."""
    add_run_arguments(parser)
    parser.add_argument("--correction", default="pucl", metavar="NAME", help="which correction (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: %(default)s)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="the run's directory (default: runs/FRAMEWORK-DATA-CORRECTION-seed-N, and the settings that were given)",
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
    parser.add_argument("framework", metavar="FRAMEWORK", help=", ".join(FRAMEWORKS))
    parser.add_argument("data", metavar="DATA", help="a known name, a folder of pictures or of graphs, or a .npz file")
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument(
        "--recipe",
        metavar="NAME",
        help=f"where settings start from: {', '.join(RECIPES)} (default: reference, and less work on the digits); for "
        "graphs they are the same",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps (default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="let torch.compile translate the encoder first")
    parser.add_argument("--tensorboard", action="store_true", help="write metrics as TensorBoard's events as well")
    declared: set[str] = set()
    for kind, frameworks in _configurations().items():
        title = "settings of every run (defaults are those of the reference programs)"
        group = parser.add_argument_group(title if kind is RunConfig else f"settings of {', '.join(frameworks)}")
        declared |= _add_settings(group, kind, declared)
    group = parser.add_argument_group("settings of the corrections")
    for name in SETTINGS:
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=f"setting_{name}",
            help=_about_setting(name),
            **_reading(_type_of_setting(name), name),
        )


def _configurations() -> dict[type[RunConfig], list[str]]:
    """The classes that configurations are made of, from the general to the special, each with its frameworks."""
    found: dict[type[RunConfig], list[str]] = {}
    for name, kind in FRAMEWORKS.items():
        for each in reversed(kind.config.__mro__):
            if issubclass(each, RunConfig):
                found.setdefault(each, []).append(name)
    return found


def _add_settings(group: "argparse._ArgumentGroup", kind: type[RunConfig], declared: Set[str]) -> set[str]:
    """Add an option for each field that this class brings and that has none yet; return those fields."""
    meanings = _meanings(kind.__doc__ or "")
    brought = set()
    for field in dataclasses.fields(kind):
        if field.name in NOT_OPTIONS | declared or field.name not in meanings:  # What is not explained is inherited.
            continue
        brought.add(field.name)
        group.add_argument(
            OPTION_OF.get(field.name, f"--{field.name.replace('_', '-')}"),
            dest=field.name,
            help=meanings[field.name] + _default_text(field.name),
            **_reading(field.type, field.name),
        )
    return brought


def _reading(annotation: Any, name: str) -> dict[str, Any]:
    """How argparse reads an option of this type."""
    kind = _kind(annotation)
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    return {"type": kind, "metavar": name.upper()}


def _type_of_setting(name: str) -> Any:
    """The type of a setting, as the first correction that has it declares it."""
    kinds = (typing.get_type_hints(kind) for kind in CORRECTIONS.values())
    return next(types[name] for types in kinds if name in types)


def _default_text(field: str) -> str:
    """What a field is unless given, with the frameworks that differ; nothing where the text says it."""
    by_value: dict[Any, list[str]] = {}
    for name, config in _references().items():
        if hasattr(config, field):
            by_value.setdefault(getattr(config, field), []).append(name)
    if by_value.keys() <= {None, False}:
        return ""
    usual, *others = sorted(by_value, key=lambda value: -len(by_value[value]))
    texts = [f"{_word(other)} for {', '.join(by_value[other])}" for other in others]
    return f" (default: {'; '.join([_word(usual), *texts])})"


@cache
def _references() -> dict[str, RunConfig]:
    """By framework: the settings of its reference program."""
    return {name: recipe(name, "", "reference") for name in FRAMEWORKS}


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


def _about_setting(name: str) -> str:
    """What a setting of corrections means, which have it, and what it is unless given."""
    having = {
        correction: next(field.default for field in dataclasses.fields(kind) if field.name == name)
        for correction, kind in CORRECTIONS.items()
        if name in settings_of(correction)
    }
    meaning = next(
        meanings[name]
        for correction in reversed(having)
        if name in (meanings := _meanings(CORRECTIONS[correction].__doc__ or ""))
    )
    return f"{meaning} (default: {', '.join(f'{value} for {correction}' for correction, value in having.items())})"


def changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of a run that were given."""
    given = {name: getattr(arguments, name, None) for name in sorted(all_field_names() - NOT_OPTIONS)}
    return {name: value for name, value in given.items() if value is not None}


def correction_settings(arguments: argparse.Namespace, correction: str) -> dict[str, Setting]:
    """The settings that were given and that this correction has."""
    return {name: value for name, value in given_settings(arguments).items() if name in settings_of(correction)}


def given_settings(arguments: argparse.Namespace) -> dict[str, Setting]:
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


def name_of_changes(config: RunConfig, recipe_name: str | None, settings: dict[str, Setting] | None = None) -> str:
    """What tells a run from that of the bare command, as the end of its directory's name; empty where nothing does.

    The same command gives the same name, so it finds its directory again; other settings give another name.

    Args:
        config: The run.
        recipe_name: The recipe that was given; None for the usual one.
        settings: Settings of corrections that were given; None for those of the run.
    """
    start = recipe(config.framework, config.data, recipe_name)
    changed = {
        field.name: value
        for field in dataclasses.fields(config)
        if field.name not in NOT_OPTIONS and (value := getattr(config, field.name)) != getattr(start, field.name)
    } | (config.settings if settings is None else settings)
    other_recipe = {} if start == recipe(config.framework, config.data) else {"recipe": recipe_name}
    return suffix_of(other_recipe | changed)


def _meanings(docstring: str) -> dict[str, str]:
    """What each argument of a class means, as its docstring says."""
    text = inspect.cleandoc(docstring).split("Args:")[1]
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, flags=re.MULTILINE)
    return {name: " ".join(words.split()).replace("`", "").replace("%", "%%").rstrip(".") for name, words in found}


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
            tensorboard=arguments.tensorboard,
            display=display,
        )
    if not first:
        return 0
    of_what = modality_of(config).probed_on
    for probe, meaning in PROBES.items():
        if probe in result:
            say(f"{meaning}: {percent(result[probe])} of {of_what}")
    say(f"everything is in {out}")
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
