"""The model card of an exported encoder: what it is, from its record. The licence is left to its owner."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pucl
from pucl.config import NOT_TRAINED, ORACLES, RunConfig
from pucl.evaluation import known_numbers, numbers_in
from pucl.frameworks import modality_of
from pucl.runs.directory import RunDirectory
from pucl.runs.statistics import Spread
from pucl.texts import fixed


@dataclass(frozen=True, kw_only=True)
class Card:
    """What the card says beside the record.

    Args:
        library: What the hub calls the library that reads the files.
        tags: Tags of the hub.
        inputs: What the encoder takes, in words; empty if its library knows.
        usage: Lines of Python that embed something.
        difference: Largest difference between the exported encoder and torch.
        features: Dimension of the features.
        loadable: Whether `pucl.load` reads the folder.
    """

    library: str
    tags: tuple[str, ...]
    inputs: str
    usage: str
    difference: float
    features: int
    loadable: bool


def public(config: RunConfig) -> RunConfig:
    """The configuration without directories of this machine: of a path only the last name is kept."""
    texts = {name: value for name, value in config.as_json().items() if isinstance(value, str)}
    changes: dict[str, Any] = {name: Path(value).name for name, value in texts.items() if Path(value).is_absolute()}
    return replace(config, **changes)


def write_card(config: RunConfig, card: Card, results: Mapping[int, Mapping[str, Any]]) -> str:
    """The text of README.md.

    Args:
        config: The run.
        card: What the record does not have.
        results: By seed: the result of the run, and those of the same runs with other seeds.
    """
    modality, data = modality_of(config), Path(config.data).name
    title = f"{config.framework} with the correction {config.correction}, on {data}"
    settings = ", ".join(f"{name} {value}" for name, value in config.all_settings().items())
    own = results.get(config.seed, {})
    samples = own.get(modality.name)
    facts = [
        ("data", f"{data}{'' if samples is None else f', {samples:,} training {modality.name}'}"),
        ("framework", config.framework),
        ("correction", config.correction + (f" ({settings})" if settings else "")),
        ("epochs, batch size", f"{config.epochs}, {config.batch_size}"),
        ("seed", str(config.seed)),
        ("features", str(card.features)),
        ("exported by", f"pucl {pucl.__version__}; its features differ from those of torch by {card.difference:.1e}"),
    ]
    parts = [
        _front_matter(config, card, data, own),
        f"# {title}",
        f"An encoder of {modality.name}, {_training(config)}.",
        _table(["", ""], facts),
        "## Use",
        *([f"Input: {card.inputs} Output: `features`, float32 [sample, {card.features}]."] if card.inputs else []),
        f"```python\n{card.usage}\n```",
        *(["`pucl.load` reads this folder too: `pucl.load(DIR).encode(samples)`."] if card.loadable else []),
        "## Results",
        _results(results, config, modality.probed_on),
        "## All settings",
        f"```json\n{json.dumps(public(config).as_json(), indent=2)}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _training(config: RunConfig) -> str:
    if config.correction in NOT_TRAINED:
        return "which was not trained"
    return f"trained by contrastive learning with {'the' if config.correction in ORACLES else 'no'} labels"


def results_of_seeds(directory: RunDirectory, config: RunConfig) -> dict[int, dict[str, Any]]:
    """By seed: the result of this run, and of the runs beside it that differ in their seed alone."""
    found: dict[int, dict[str, Any]] = {}
    for path in [directory.path, *sorted(directory.path.resolve().parent.glob("*/config.json"))]:
        other = directory if path == directory.path else RunDirectory(path.parent)
        try:
            there, result = other.config(), other.result()
        except ValueError:  # Of another program, or damaged.
            continue
        if result is not None and type(there) is type(config) and replace(there, seed=config.seed) == config:
            found.setdefault(there.seed, result)
    return dict(sorted(found.items()))


def _results(results: Mapping[int, Mapping[str, Any]], config: RunConfig, probed_on: str) -> str:
    known, names = known_numbers(), numbers_in(results.values())
    if not names:
        return "No results are recorded."
    own = f"this encoder (seed {config.seed})"
    seeds = ", ".join(map(str, results))
    header = [f"on {probed_on}, in percent", own]
    if len(results) > 1:
        header.append(f"mean ± standard deviation of the seeds {seeds}")
    rows = []
    for name in names:
        values = [100 * each[name] for each in results.values() if name in each]
        row = [known[name].name, fixed(100 * results[config.seed][name]) if name in results[config.seed] else ""]
        if len(results) > 1:
            row.append(str(Spread.of(values)))
        rows.append(row)
    return _table(header, rows)


def _front_matter(config: RunConfig, card: Card, data: str, own: Mapping[str, Any]) -> str:
    """What the hub reads. JSON is YAML, so that names of data may hold any sign."""
    task, known = modality_of(config).hub_task, known_numbers()
    metrics = [
        {"type": name, "name": known[name].name, "value": round(100 * own[name], 2)} for name in numbers_in([own])
    ]
    lines = [
        "---",
        "# license: choose one, https://huggingface.co/docs/hub/repositories-licenses",
        f"library_name: {card.library}",
        f"pipeline_tag: {task}",
        f"tags: {json.dumps(['pucl', 'contrastive-learning', 'self-supervised-learning', *card.tags])}",
    ]
    if metrics:
        results = [{"task": {"type": task}, "dataset": {"name": data, "type": data}, "metrics": metrics}]
        index = [{"name": f"{config.framework}-{config.correction}", "results": results}]
        lines.append(f"model-index: {json.dumps(index)}")
    return "\n".join([*lines, "---"])


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
