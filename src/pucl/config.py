"""The configuration of a run: all its settings in one frozen value. A run is resumed only with an equal one."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from pucl.contrast.compat import Compat
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.objective import Floor
from pucl.contrast.objectives import OBJECTIVES, check_floor
from pucl.contrast.pairing import check_temperature
from pucl.corrections import CORRECTIONS, Correction, Hard, Plain
from pucl.corrections.auto import FINDS
from pucl.data.errors import ExtraMissingError
from pucl.devices import PRECISIONS, Precision
from pucl.evaluation import PROBES, Probe, record_key
from pucl.records import conform
from pucl.settings import setting
from pucl.texts import did_you_mean
from pucl.training.optimisers import OPTIMISERS, SCHEDULES, Schedule, check_optimiser
from pucl.training.plan import check_plan

PLAIN, AUTO, ORACLE, UNTRAINED, RAW = "plain", "auto", "oracle", "untrained", "raw"
ATTRACTING_ORACLE = "oracle-attract"
NOT_TRAINED = (UNTRAINED, RAW)
ORACLES = (ORACLE, ATTRACTING_ORACLE)
"""The rows whose losses know the labels: false negatives are left out, or attracted."""

DEFAULT = "default"
"""Stands for the usual probes."""

SettingValue = bool | int | float | str | None
"""The value of a correction's setting."""

NAMED_ROWS: dict[str, tuple[str, dict[str, SettingValue]]] = {
    "tilt-alone": ("hard", {"tau_plus": 0.0}),
    "pucl-stopped": ("pucl", {"stop_gradient": True}),
    "clusters-shuffled": ("clusters", {"shuffled": True}),
    "clusters-kmeans": ("clusters", {"k": 10}),
    "auto-shuffled": ("clusters", {"attraction": FINDS.attraction, "shuffled": True}),
}
"""Rows of a comparison that are a correction with fixed settings: name of the correction, settings.

``tilt-alone`` is the control of all tilted rows: what Hard's tilt does without a prior.
``clusters-shuffled`` and ``clusters-kmeans`` are the controls of clusters: communities of other samples, and k-means.
``auto-shuffled`` is the control of auto: it removes and attracts by communities of other samples.
"""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training and its evaluation: the settings that all runs have.

    A framework has a subclass of its own, which sets `framework` and adds its settings; so has a modality. The
    configuration of a run has the settings of both: see `pucl.frameworks.recipes.config_class`. `pucl train
    FRAMEWORK --help` shows them.
    """

    keep_rest: ClassVar[bool] = False
    """Whether an epoch ends with a smaller batch of the remaining samples. Otherwise these are skipped."""

    raw_features: ClassVar[bool] = False
    """Whether samples have features without an encoder, for the row ``"raw"``."""

    unfit_probes: ClassVar[tuple[str, ...]] = ()
    """Probes that do not fit the modality."""

    probe_settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """By probe: settings that the modality changes."""

    framework: str
    modality: str
    data: str
    correction: str = setting(
        PLAIN, "name of a correction, or oracle, oracle-attract, untrained, or raw where samples have features"
    )
    settings: dict[str, SettingValue] = field(default_factory=dict)
    limit: int | None = setting(
        None, "train on this many samples, spread evenly over the classes; default: all", group="data"
    )
    exclude: str | None = setting(
        None,
        "file of pairs that are never each other's negatives, such as those of pucl suspects; default: none",
        group="data",
    )
    epochs: int = setting(100, "passes over the training data", group="optimisation")
    batch_size: int = setting(256, "samples per step, of all processes together", group="optimisation")
    optimiser: str = setting("adam", "optimiser", group="optimisation", choices=lambda _: OPTIMISERS)
    learning_rate: float = setting(1e-3, "highest learning rate", group="optimisation")
    momentum: float = setting(0.9, "share of past gradients that is kept; Adam's first beta", group="optimisation")
    weight_decay: float = setting(1e-6, "L2 penalty", group="optimisation")
    schedule: Schedule = setting(
        "constant",
        "learning rate over time; step divides it by 10 after 1/2, 2/3 and 5/6 of the steps",
        group="optimisation",
    )
    warmup_epochs: int = setting(0, "epochs in which the learning rate rises from 0", group="optimisation")
    clip: float | None = setting(None, "clip gradients to this norm; default: off", group="optimisation")
    objective: ObjectiveName = setting("infonce", "loss function", group="loss")
    floor: Floor = setting(
        "temperature",
        "smallest value of the estimated mean over negatives: temperature (as in the published programs), auto, paper, "
        "or a share of the unlabelled mean",
        group="loss",
    )
    precision: Precision = setting("float32", "number format of encoder and head in training", group="optimisation")
    monitor: int = setting(
        10,
        "times that retrieval and kNN are measured within the training set during training; 0: never",
        group="evaluation",
    )
    probes: str = setting(
        DEFAULT,
        "probes to run after training, separated by commas; default: all that fit and are installed",
        group="evaluation",
        choices=lambda config: config.fitting_probes(),
        several=True,
    )
    seed: int = setting(0, "seed of all random numbers", group="run")

    def __post_init__(self) -> None:
        for name in ("framework", "modality"):
            given = getattr(self, name)
            if given != (own := getattr(type(self), name, given)):
                raise ValueError(f"a {type(self).__name__} describes runs of {own}, got {given}")
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{each.name} is a number: expected a finite one, got {value}")
        check_known("correction", self.correction, row_names())
        check_known("precision", self.precision, PRECISIONS)
        check_known("schedule", self.schedule, SCHEDULES)
        check_plan(self.epochs, self.batch_size, self.clip)
        check_optimiser(self.optimiser, self.learning_rate, self.momentum, self.weight_decay)
        check_known("objective", self.objective, OBJECTIVES)
        check_floor(self.floor, self.objective)
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is where random numbers start: expected 0 or more, below 2^63, got {self.seed}")
        if not 0 <= self.warmup_epochs <= self.epochs:
            raise ValueError(
                f"warmup_epochs are the first of all epochs: expected 0 to {self.epochs}, got {self.warmup_epochs}"
            )
        if self.monitor < 0:
            raise ValueError(f"monitor is how often the training set is probed: expected 0 or more, got {self.monitor}")
        if self.correction == RAW and not self.raw_features:
            raise ValueError(f"{self.modality} have no features without an encoder: expected a correction, got {RAW!r}")
        if self.probes != DEFAULT:
            self.choose_probes(self.probes.split(","))
        self.make_correction()

    @classmethod
    def fitting_probes(cls) -> dict[str, Probe]:
        """The probes that fit the modality, with its settings."""
        return {
            name: dataclasses.replace(probe, settings={**probe.settings, **cls.probe_settings.get(name, {})})
            for name, probe in PROBES.items()
            if name not in cls.unfit_probes
        }

    def choose_probes(self, names: Sequence[str] | None = None) -> dict[str, Probe]:
        """The probes of these names."""
        fitting = self.fitting_probes()
        if names is None:
            if self.probes == DEFAULT:
                return {name: probe for name, probe in fitting.items() if probe.by_default and probe.installed}
            names = self.probes.split(",")
        for name in names:
            check_known("probe", name, fitting)
        return {name: fitting[name] for name in names}

    def measured_numbers(self) -> list[str]:
        """The names of the numbers that the probes of the run report."""
        return [record_key(name, number) for name, probe in self.choose_probes().items() for number in probe.numbers]

    def skipped_probes(self) -> tuple[str, ...]:
        """For each default probe whose packages are missing, a sentence that says so."""
        sentences = []
        for name, probe in self.fitting_probes().items():
            if self.probes == DEFAULT and probe.by_default:
                try:
                    probe.need_packages()
                except ExtraMissingError as error:
                    sentences.append(f"the probe {name} is skipped: {error}")
        return tuple(sentences)

    def make_correction(self) -> Correction:
        """The correction with its settings; the oracle and the untrained encoder correct nothing."""
        for name in self.settings:
            check_known(f"setting of {self.correction}", name, settings_of(self.correction))
        if self.correction in (*NOT_TRAINED, ATTRACTING_ORACLE):
            return Plain()
        correction_class = Hard if self.correction == ORACLE else CORRECTIONS[self.correction]
        types = get_type_hints(correction_class)
        given = {name: conform(value, types[name], f"{name!r}") for name, value in self.settings.items()}
        return (
            Hard(**({"tau_plus": 0.0, "beta": 0.0} | given)) if self.correction == ORACLE else correction_class(**given)
        )

    def all_settings(self) -> dict[str, Any]:
        """The settings of the correction, given or not."""
        correction = self.make_correction()
        return {name: getattr(correction, name) for name in settings_of(self.correction)}

    def as_json(self) -> dict[str, Any]:
        """The configuration for a record."""
        return dataclasses.asdict(self)

    @property
    def subject(self) -> str:
        """Framework and data."""
        return f"{self.framework} on {Path(self.data).name}"

    @property
    def short_name(self) -> str:
        """A name that distinguishes the run from others on the same subject."""
        return f"{self.correction}, seed {self.seed}"

    @property
    def compares_cosines(self) -> bool:
        """Whether similarities are cosines; otherwise they are inner products."""
        return True

    def as_published(self) -> Compat | None:
        """The authors whose loss is used as they published it; None for the correct one. See `pucl.contrast.compat`."""
        return None

    @property
    def known_positives(self) -> str:
        """What a known positive is, in words."""
        return "two views of one sample"

    @property
    def foreign_encoder(self) -> str | None:
        """The import path of an encoder that is not pucl's; None if it is."""
        return None

    @property
    def pretrained_model(self) -> str | None:
        """The name or directory of a model that the encoder starts from; None if it starts from random weights.

        It is data, not code. `pucl.load` finds it there, or is given another copy of it.
        """
        return None

    @property
    def fetched_model(self) -> str | None:
        """The name of a model that the training downloads, unless it is on this machine; None if there is none."""
        return None

    def for_encoding(self) -> "RunConfig":
        """The same with the smallest queue or bank, which nothing needs after the training."""
        return self

    def pairs_met(self, samples: int) -> tuple[int, int]:
        """How many known positives and how many unlabelled samples an anchor meets in a step: M+ and N."""
        return 1, max(1, min(self.batch_size, samples) - 1)


@dataclass(frozen=True, kw_only=True)
class CosineConfig(RunConfig):
    """A run of a framework that compares embeddings by their cosines."""

    dim: int = setting(128, "dimension of the embeddings that the loss compares", group="loss")
    temperature: float = setting(0.5, "cosines are divided by it", group="loss")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_temperature(self.temperature)
        if self.dim < 1:
            raise ValueError(f"dim is the dimension of the embeddings: expected at least 1, got {self.dim}")


def field_names(config_class: type[RunConfig]) -> set[str]:
    """The fields of a configuration."""
    return {each.name for each in dataclasses.fields(config_class)}


def row_names() -> list[str]:
    """The names that `RunConfig.correction` accepts.

    Corrections, the two oracles, the untrained encoder, and raw features, which some modalities have.
    """
    return [*CORRECTIONS, *ORACLES, UNTRAINED, RAW]


def settings_of(correction: str) -> list[str]:
    """The settings of a row of a comparison; none for an unknown name."""
    if correction == ORACLE:
        return ["beta"]
    if correction in NAMED_ROWS:
        correction_name, fixed = NAMED_ROWS[correction]
        return [name for name in settings_of(correction_name) if name not in fixed]
    correction_class = CORRECTIONS.get(correction)
    return [] if correction_class is None else [each.name for each in dataclasses.fields(correction_class)]


def check_once(meaning: str, names: Sequence[str]) -> None:
    """Refuse a list that is empty, or has a name twice."""
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{meaning}: expected at least one, each once, got {', '.join(names) or 'none'}")


def check_known(meaning: str, name: str, known: Any) -> None:
    """Refuse a name that is not among the known ones, and say which was probably meant."""
    if name not in known:
        raise ValueError(
            f"{name!r} is no {meaning}: expected one of {_listed(known) or 'none'}.{did_you_mean(name, known)}"
        )


def _listed(names: Iterable[str]) -> str:
    """Names separated by commas, or by semicolons if a name has a comma."""
    names = list(names)
    return ("; " if any("," in name for name in names) else ", ").join(names)
