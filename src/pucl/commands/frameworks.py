"""The options of a training: each framework has its own, made from typed settings.

The field of a setting has its name, type, default, meaning and group (see `pucl.settings`). The tables of frameworks
and corrections are read when a parser is built, so that a new entry has its options at once.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from pucl.commands.options import (
    Container,
    add_device,
    add_log,
    add_root,
    add_setting,
    braced,
    given,
    option_of,
)
from pucl.commands.parser import listed
from pucl.config import NAMED_ROWS, ORACLES, PLAIN, UNTRAINED, SettingValue, settings_of
from pucl.corrections import CORRECTIONS
from pucl.frameworks import FRAMEWORKS
from pucl.frameworks.kind import FrameworkKind
from pucl.frameworks.recipes import config_class, modalities_of
from pucl.modality import Modality
from pucl.recipe import RECIPES
from pucl.settings import Setting, read_settings

GROUPS = ("data", "views", "encoder", "loss", "correction", "optimisation", "evaluation", "run")
"""Headings of ``--help`` that every framework has, in their order. Others follow."""

NOT_OPTIONS = {"framework", "modality", "data", "settings", "correction", "seed"}
"""Fields of a configuration that are arguments of their own."""

OptionGroups = Mapping[str, Container]


def add_frameworks(
    parser: argparse.ArgumentParser,
    add_own: Callable[[OptionGroups, FrameworkKind], None],
    examples: Sequence[str],
) -> None:
    """Add a parser for each framework, with the settings of that framework and of its modalities.

    Args:
        parser: The parser of the command.
        add_own: Adds the command's own options: ``add_own(groups, kind)``, with the groups by heading.
        examples: Arguments after the framework's name, with ``{data}`` for a known name and ``{path}`` for a path.
    """
    parsers = parser.add_subparsers(dest="framework", metavar="FRAMEWORK DATA", required=True, title="frameworks")
    for name, kind in FRAMEWORKS.items():
        summary = (kind.config.__doc__ or name).partition("\n")[0]
        modalities = modalities_of(kind)
        names = [source for modality in modalities for source in modality.sources]
        paths = ", or ".join(modality.paths for modality in modalities)
        path = f"{modalities[0].word}/"
        data = next(iter(names), path)
        shown = [f"{parser.prog} {name} {each.format(data=data, path=path)}" for each in examples]
        own = parsers.add_parser(
            name,
            help=summary.rstrip("."),
            usage=f"{parser.prog} {name} DATA [options]",
            description=f"{summary}\n\n{_about_defaults(kind, modalities)}",
            epilog=listed(shown),
            formatter_class=parser.formatter_class,
        )
        own.add_argument(
            "data",
            metavar="DATA",
            nargs="?",  # A file of settings may have it.
            choices=names,
            help=f"name of a data set (`pucl data list` shows them), or {paths}",
        )
        settings = _options_of(kind)
        after = GROUPS.index("encoder") + 1
        titles = [*GROUPS[:after], name, *GROUPS[after:], *(each.group for each in settings if each.group)]
        groups = {title: own.add_argument_group(title) for title in dict.fromkeys(titles)}
        add_root(groups["data"])
        groups["run"].add_argument(
            "--recipe", choices=RECIPES, metavar=braced(RECIPES), help="settings to start from; see above"
        )
        add_own(groups, kind)
        for each in settings:
            text = _with_default(each.meaning, kind.recipes.reference.get(each.name, each.default))
            add_setting(groups[each.group or name], each, each.name, text)
        for each, text in _settings_of_corrections().values():
            add_setting(groups["correction"], each, f"setting_{each.name}", text)
        _refuse_others(own, name)
        add_device(groups["run"])
        groups["run"].add_argument("--compile", action="store_true", help="compile the encoder with torch.compile")
        add_log(groups["run"])


def rows_of(modalities: Iterable[Modality]) -> list[str]:
    """What a run on these modalities can be, in the order in which it is shown."""
    extra = dict.fromkeys(row for modality in modalities for row in modality.extra_rows)
    return [*extra, UNTRAINED, *CORRECTIONS, *ORACLES]


def compared_rows(modalities: Iterable[Modality]) -> list[str]:
    """The rows that a comparison can have: `rows_of`, and beside a correction its rows with fixed settings."""
    names = []
    for name in rows_of(modalities):
        names += [name, *(row for row, (correction, _) in NAMED_ROWS.items() if correction == name)]
    return names


def changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of the run that were given."""
    names = options_of_framework(arguments.framework)
    return {name: None for name in arguments.unset if name in names} | given(arguments, *names)


def given_settings(arguments: argparse.Namespace) -> dict[str, SettingValue]:
    """The settings of corrections that were given."""
    names = [f"setting_{name}" for name in _settings_of_corrections()]
    found = {name: None for name in arguments.unset if name in names} | given(arguments, *names)
    return {name.removeprefix("setting_"): value for name, value in found.items()}


def settings_by_row(arguments: argparse.Namespace, corrections: Sequence[str]) -> dict[str, dict[str, SettingValue]]:
    """The given settings of each correction.

    Raises:
        ValueError: If none of these corrections has a setting that was given. It would be ignored silently.
    """
    found = given_settings(arguments)
    taken = {name for correction in corrections for name in settings_of(correction)}
    for name in found:
        if name not in taken:
            known = ", ".join(option_of(each) for each in sorted(taken)) or "no settings, so remove the option"
            having = [correction for correction in CORRECTIONS if name in settings_of(correction)]
            of = f"; to use it, choose {' or '.join(having)}" if having else ""
            raise ValueError(f"{option_of(name)} is no setting of {', '.join(corrections)}: expected {known}{of}")
    return {
        correction: {name: value for name, value in found.items() if name in settings_of(correction)}
        for correction in corrections
    }


def options_of_framework(framework: str) -> dict[str, Setting]:
    """The settings of a framework that are options, by name."""
    return {each.name: each for each in _options_of(FRAMEWORKS[framework])}


def correction_settings() -> dict[str, Setting]:
    """The settings of all corrections, by name."""
    return {name: each for name, (each, _) in _settings_of_corrections().items()}


def settings_of_others(framework: str) -> dict[str, list[str]]:
    """Settings that this framework does not have, by name: the frameworks that have them."""
    own = options_of_framework(framework)
    having: dict[str, list[str]] = {}
    for other in FRAMEWORKS:
        for name in options_of_framework(other):
            if name not in own:
                having.setdefault(name, []).append(other)
    return having


def _about_defaults(kind: FrameworkKind, modalities: Iterable[Modality]) -> str:
    text = "Defaults are the settings of the reference program"
    text += "." if kind.correction == PLAIN else f", but for the correction: it is {kind.correction}."
    halves = [kind.recipes, *(modality.recipes for modality in modalities)]
    others = [name for name in RECIPES if name != "reference" and any(half.changes(name, "") for half in halves)]
    if others:
        text += f" --recipe {' or '.join(others)} starts from other settings."
    if known := [name for half in halves for name in half.first_look]:
        text += f" On {', '.join(known)} the default is a short training, for a first look."
    return text


def _options_of(kind: FrameworkKind) -> list[Setting]:
    """The settings of a framework on all modalities that it takes, each setting once."""
    found: dict[str, Setting] = {}
    for modality in modalities_of(kind):
        for each in read_settings(config_class(kind, modality)):
            if each.name not in NOT_OPTIONS:
                found.setdefault(each.name, each)
    return list(found.values())


def _settings_of_corrections() -> dict[str, tuple[Setting, str]]:
    """The settings of all corrections by name, each with its help text."""
    found: dict[str, dict[str, Setting]] = {}
    for correction, kind in CORRECTIONS.items():
        for each in read_settings(kind):
            found.setdefault(each.name, {})[correction] = each
    texts = {}
    for name, by_correction in sorted(found.items()):
        first = next(iter(by_correction.values()))
        having: dict[Any, list[str]] = {}
        for correction, each in by_correction.items():
            having.setdefault(each.default, []).append(correction)
        text = _with_default(first.meaning, first.default)
        if len(having) > 1:
            defaults = "; ".join(f"{_word(value)} for {', '.join(names)}" for value, names in having.items())
            text = f"{first.meaning} (default: {defaults})"
        texts[name] = first, f"{', '.join(by_correction)}: {text}"
    return texts


def _refuse_others(parser: argparse.ArgumentParser, framework: str) -> None:
    """Let the options of other frameworks be refused by a sentence that names those frameworks."""
    for name, others in settings_of_others(framework).items():
        message = f"{option_of(name)} is a setting of {', '.join(others)}, not of {framework}"
        parser.add_argument(option_of(name), action=_Refuse, message=message)


class _Refuse(argparse.Action):
    """An option that is not listed, and refused by a message if it is given."""

    def __init__(self, option_strings: Sequence[str], dest: str, message: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs="?", help=argparse.SUPPRESS)
        del dest
        self.message = message

    def __call__(self, *_: object) -> NoReturn:
        raise ValueError(self.message)


def _with_default(meaning: str, default: Any) -> str:
    """The meaning with the default, unless the meaning itself names the default."""
    return meaning if "default" in meaning else f"{meaning} (default: {_word(default)})"


def _word(value: Any) -> str:
    return {"True": "yes", "False": "no", "None": "none"}.get(str(value), str(value))
