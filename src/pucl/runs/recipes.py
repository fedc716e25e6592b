"""The settings of the reference programs, as functions that return a configuration. A variant changes a field."""

from pathlib import Path
from typing import Any

from pucl.graphs.registry import MADE
from pucl.graphs.sources.tu_collection import known_graphs
from pucl.images.registry import SOURCES
from pucl.runs.config import FRAMEWORKS, GraphConfig, ImageConfig, RunConfig, choose, fields_of

REFERENCE: dict[str, dict[str, Any]] = {
    # chingyaoc/DCL and joshr17/HCL: Adam without a schedule, temperature 0.5, batch 256.
    "simclr": {"temperature": 0.5, "optimiser": "adam", "learning_rate": 1e-3, "weight_decay": 1e-6},
    # MoCo's CIFAR10 recipe: learning rate 0.03 at batch 256, cosine, split batch norm.
    "moco": {
        "temperature": 0.1,
        "optimiser": "sgd",
        "learning_rate": 0.03,
        "weight_decay": 5e-4,
        "schedule": "cosine",
        "key_momentum": 0.99,
        "crop": 0.2,
        "blur": 0.0,
    },
    # CMC with its softmax form, batch 128 to 256.
    "cmc": {
        "temperature": 0.1,
        "optimiser": "sgd",
        "learning_rate": 0.03,
        "weight_decay": 1e-4,
        "schedule": "step",
        "bank_momentum": 0.5,
        "crop": 0.2,
    },
    # InfoGraph's README and HCL's launch script, but for its 200 epochs: Adam without decay, three layers of 32.
    "infograph": {"optimiser": "adam", "learning_rate": 1e-3, "weight_decay": 0.0, "hidden": 32, "layers": 3},
}
"""By framework; what is not named here is the default of `ImageConfig` or `GraphConfig`."""

PAPER: dict[str, Any] = {
    "encoder": "resnet50",
    "epochs": 400,
    "batch_size": 256,
    "queue_size": 4096,
    "draws": 4096,
}
SMALL: dict[str, Any] = {
    "encoder": "small",
    "stem": "half",
    "epochs": 8,
    "batch_size": 128,
    "schedule": "cosine",
    "crop": 0.2,
    "blur": 0.0,
}

RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    # The reference programs; what they leave open is the default of the configuration.
    "reference": {framework: {} for framework in REFERENCE},
    # The paper's size, for people with accelerators; graphs are small enough for everyone.
    "paper": {"simclr": PAPER, "moco": PAPER, "cmc": PAPER, "infograph": {}},
    # Images of 32 x 32 on two cores in a quarter of an hour: half the resolution inside, and few but eager steps.
    "small": {
        "simclr": SMALL | {"learning_rate": 2e-3},
        "moco": SMALL,
        # A bank is renewed once an epoch: in eight of them, with SGD, CMC hardly begins to learn.
        "cmc": SMALL | {"optimiser": "adam", "learning_rate": 2e-3, "epochs": 12},
        "infograph": {},
    },
}
"""By name and framework: what is changed in the reference settings."""

FIRST_RUN: dict[str, dict[str, Any]] = {
    "digits": {
        "epochs": 12,
        "batch_size": 128,
        "image_size": 16,
        "stem": "half",
        "queue_size": 1024,
        "flip": 0.0,
        "crop": 0.4,
    }
}
"""By data: what a first look should take, so that it is over in a minute on a laptop."""


def recipe(framework: str, data: str, name: str | None = None, **changes: Any) -> RunConfig:
    """The reference settings of a framework, those of a recipe or else of a first look at the data, and the changes.

    Args:
        framework: ``"simclr"``, ``"moco"``, ``"cmc"`` or ``"infograph"``.
        data: A known name or a path, which is made absolute: the run is the same from wherever it is continued.
        name: Of the recipe; None is the reference's, with less work where the data are for a first look.
        changes: Fields of `ImageConfig` or `GraphConfig`.
    """
    choose("framework", framework, REFERENCE)
    for field in changes:
        _check_field(framework, field)
    _check_kind(framework, data)
    if name is None:
        start = FIRST_RUN.get(data, {}) if _known(FRAMEWORKS[framework], data) else {}
    else:
        choose("recipe", name, RECIPES)
        start = RECIPES[name][framework]
    if not _known(FRAMEWORKS[framework], data) and Path(data).expanduser().exists():
        data = str(Path(data).expanduser().resolve())
    return FRAMEWORKS[framework](framework=framework, data=data, **(REFERENCE[framework] | start | changes))


def _known(kind: type[RunConfig], data: str) -> bool:
    """Whether these data have a name, which is meant even where a file is called so."""
    if kind is GraphConfig:
        return data.lower() in MADE or known_graphs(data) is not None
    return data in SOURCES


def _check_field(framework: str, field: str) -> None:
    """Refuse a setting that the runs of this framework do not have."""
    having = [name for name in FRAMEWORKS if field in fields_of(name)]
    if having and framework not in having:
        raise ValueError(f"{field} is a setting of {', '.join(having)}, not of {framework}")
    choose(f"setting of {framework}", field, sorted(fields_of(framework)))


def _check_kind(framework: str, data: str) -> None:
    """Refuse pictures where graphs are wanted, and the other way round, as far as names tell."""
    kinds = {ImageConfig: "pictures", GraphConfig: "graphs"}
    own = FRAMEWORKS[framework]
    if _known(own, data) or Path(data).expanduser().exists():
        return
    for kind, what in kinds.items():
        if kind is not own and _known(kind, data):
            takers = ", ".join(name for name, each in FRAMEWORKS.items() if each is kind)
            raise ValueError(f"{data} is a set of {what}, for {takers}: expected {kinds[own]} for {framework}")
