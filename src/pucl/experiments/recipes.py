"""The settings of the reference programs, as functions that return a configuration. A variant changes a field."""

from typing import Any

from pucl.experiments.config import RunConfig, choose

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
        "schedule": "cosine",
        "bank_momentum": 0.5,
        "crop": 0.2,
    },
}
"""By framework; what is not named here is the default of `RunConfig`."""

RECIPES: dict[str, dict[str, Any]] = {
    # Everything that the reference programs do not agree on, or leave to the user, is the default of `RunConfig`.
    "reference": {},
    # The paper's size, for people with accelerators.
    "paper": {"encoder": "resnet50", "epochs": 400, "batch_size": 256, "queue_size": 4096, "draws": 4096},
    # Images of 32 x 32 on two cores in a quarter of an hour: half the resolution inside, and few but eager steps.
    "small": {
        "encoder": "small",
        "stem": "half",
        "epochs": 8,
        "batch_size": 128,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "crop": 0.2,
        "blur": 0.0,
    },
}
"""By name: what is changed in the settings of a framework."""

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


def recipe(framework: str, data: str, name: str = "reference", **changes: Any) -> RunConfig:
    """The reference settings of a framework, then the recipe, what suits the data, and the changes."""
    choose("framework", framework, REFERENCE)
    choose("recipe", name, RECIPES)
    settings = REFERENCE[framework] | RECIPES[name] | FIRST_RUN.get(data, {}) | changes
    return RunConfig(framework=framework, data=data, **settings)
