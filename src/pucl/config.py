"""What a run is: one frozen value that says everything, and is compared before anything is continued."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_type_hints

from pucl.contrast.compare import ObjectiveName
from pucl.contrast.compat import Compat
from pucl.contrast.objectives import OBJECTIVES, Floor, check_floor
from pucl.corrections import CORRECTIONS, Correction, Hard, Plain
from pucl.devices import PRECISIONS, Precision
from pucl.records import conform
from pucl.texts import did_you_mean
from pucl.training.loop import check_plan
from pucl.training.optimisers import SCHEDULES, Schedule, check_optimiser

PLAIN, ORACLE, UNTRAINED, RAW = "plain", "oracle", "untrained", "raw"
ROWS = (*CORRECTIONS, ORACLE, UNTRAINED, RAW)
"""What can stand in a row of a comparison: the corrections, the loss that knows the labels, no training, and no
encoder (for modalities that have raw features)."""
NOT_TRAINED = (UNTRAINED, RAW)

Setting = bool | int | float | str | None
"""What a setting of a correction can be."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training and its evaluation: the settings that all frameworks have.

    A framework has a subclass of its own, which sets `framework` and adds its settings.

    Args:
        framework: Its name in the table of frameworks.
        data: A known name or a path.
        correction: A correction by its name in the table, ``"oracle"``, ``"untrained"``, or ``"raw"`` where samples
            have raw features.
        settings: Of the correction, such as ``{"alpha": 0.12, "c": 0.1}``.
        limit: Use only this many samples for training, evenly over the classes; by default all.
        epochs: Passes over the data.
        batch_size: Samples in a step.
        optimiser: ``"adam"``, ``"sgd"`` or ``"lars"``.
        learning_rate: At its highest.
        momentum: Share of past gradients that stays; of Adam its first beta.
        weight_decay: Of the optimiser.
        schedule: ``"constant"``, ``"cosine"`` or ``"step"``.
        warmup_epochs: Epochs over which the learning rate rises.
        clip: Largest norm of a gradient; by default any.
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        floor: Below what the estimate over negatives cannot fall: ``"temperature"`` (as in the published programs),
            ``"auto"``, ``"paper"`` or a share of the unlabelled mean.
        precision: In which encoder and head compute while they are trained: ``"float32"``, ``"bfloat16"`` or
            ``"float16"``.
        monitor: How many times in a training nearest neighbours within the training set are asked; 0 never.
        seed: Of everything random.
    """

    keep_rest: ClassVar[bool] = False
    """Whether an epoch ends with a smaller batch of what is left."""

    framework: str
    data: str
    correction: str = "pucl"
    settings: dict[str, Setting] = field(default_factory=dict)
    limit: int | None = None
    epochs: int = 100
    batch_size: int = 256
    optimiser: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 1e-6
    schedule: Schedule = "constant"
    warmup_epochs: int = 0
    clip: float | None = None
    objective: ObjectiveName = "infonce"
    floor: Floor = "temperature"
    precision: Precision = "float32"
    monitor: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.framework != (own := getattr(type(self), "framework", self.framework)):
            raise ValueError(f"a {type(self).__name__} describes runs of {own}, got {self.framework}")
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{each.name} is a number: expected a finite one, got {value}")
        choose("correction", self.correction, ROWS)
        choose("precision", self.precision, PRECISIONS)
        choose("schedule", self.schedule, SCHEDULES)
        check_plan(self.epochs, self.batch_size, self.clip)
        check_optimiser(self.optimiser, self.learning_rate, self.momentum, self.weight_decay)
        choose("objective", self.objective, OBJECTIVES)
        check_floor(self.floor, self.objective)
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is where random numbers start: expected 0 or more, below 2^63, got {self.seed}")
        if not 0 <= self.warmup_epochs <= self.epochs:
            raise ValueError(
                f"warmup_epochs are the first of all: expected 0 to {self.epochs}, got {self.warmup_epochs}"
            )
        if self.monitor < 0:
            raise ValueError(f"monitor is how many times to look: expected 0 or more, got {self.monitor}")
        self.make_correction()

    def make_correction(self) -> Correction:
        """The correction with its settings; the oracle and the untrained encoder correct nothing."""
        for name in self.settings:
            choose(f"setting of {self.correction}", name, settings_of(self.correction))
        if self.correction in NOT_TRAINED:
            return Plain()
        kind = Hard if self.correction == ORACLE else CORRECTIONS[self.correction]
        types = get_type_hints(kind)
        given = {name: conform(value, types[name], f"{name!r}") for name, value in self.settings.items()}
        return Hard(**({"tau_plus": 0.0, "beta": 0.0} | given)) if self.correction == ORACLE else kind(**given)

    def all_settings(self) -> dict[str, Any]:
        """The settings of the correction, given or not."""
        correction = self.make_correction()
        return {name: getattr(correction, name) for name in settings_of(self.correction)}

    def as_json(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return dataclasses.asdict(self)

    @property
    def compares_cosines(self) -> bool:
        """Whether similarities are cosines; otherwise they are inner products."""
        return True

    def as_published(self) -> Compat | None:
        """Whose published loss is used in place of the one that is meant; see `pucl.contrast.compat`."""
        return None

    @property
    def known_positives(self) -> str:
        """What a known positive is, in words."""
        return "two views of one sample"

    @property
    def foreign_encoder(self) -> str | None:
        """The import path of an encoder that is not pucl's; None if it is."""
        return None

    def for_encoding(self) -> "RunConfig":
        """The same with as little memory as there can be: it is of no use once the training is over."""
        return self

    def pairs_met(self, samples: int) -> tuple[int, int]:
        """How many known positives and how many unlabelled samples an anchor meets in a step: M+ and N.

        Args:
            samples: How many samples there are to train on.
        """
        return 1, max(1, min(self.batch_size, samples) - 1)


def field_names(kind: type[RunConfig]) -> set[str]:
    """The fields of a configuration."""
    return {each.name for each in dataclasses.fields(kind)}


def settings_of(correction: str) -> list[str]:
    """The settings that a row of a comparison takes; none for a name that is no row."""
    if correction == ORACLE:
        return ["beta"]
    kind = CORRECTIONS.get(correction)
    return [] if kind is None else [each.name for each in dataclasses.fields(kind)]


def check_once(meaning: str, names: Sequence[str]) -> None:
    """Refuse a list that is empty, or has a name twice.

    Args:
        meaning: What the names are, as the beginning of a sentence.
        names: As given.
    """
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{meaning}: expected at least one, each once, got {', '.join(names) or 'none'}")


def choose(meaning: str, name: str, known: Any) -> None:
    """Refuse a name that is not among the known ones, and say which was probably meant."""
    if name not in known:
        raise ValueError(
            f"{name!r} is no {meaning}: expected one of {_listed(known) or 'none'}.{did_you_mean(name, known)}"
        )


def _listed(names: Iterable[str]) -> str:
    """Names one after the other, so that it is seen where each ends."""
    names = list(names)
    return ("; " if any("," in name for name in names) else ", ").join(names)
