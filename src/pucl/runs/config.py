"""What a run is: one frozen value that says everything, and is compared before anything is continued."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from pucl.contrast.compare import ObjectiveName
from pucl.contrast.compat import COMPATS, Compat
from pucl.contrast.objectives import OBJECTIVES, Floor, check_floor
from pucl.contrast.pairing import check_temperature
from pucl.corrections import CORRECTIONS, Correction, Hard, Plain
from pucl.devices import PRECISIONS, Precision
from pucl.frameworks.infograph import SHARES, Share
from pucl.graphs.features import CHOICES
from pucl.images.encoders.resnet import Stem
from pucl.records import conform
from pucl.texts import did_you_mean
from pucl.training.loop import check_plan
from pucl.training.optimisers import SCHEDULES, Schedule, check_optimiser

PLAIN, ORACLE, UNTRAINED, RAW = "plain", "oracle", "untrained", "raw"
ROWS = (*CORRECTIONS, ORACLE, UNTRAINED, RAW)
"""What can stand in a row of a comparison: the corrections, the loss that knows the labels, no training, and (for
graphs) no encoder."""
NOT_TRAINED = (UNTRAINED, RAW)

Setting = bool | int | float | str | None
"""What a setting of a correction can be."""

GRAPH_PROBES = ("svm", "svm_scaled", "linear", "knn")
"""Classifiers of graphs: the references' support vector machine, the same on scaled features, linear, neighbours."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training and its evaluation: what images and graphs have in common.

    Args:
        framework: ``"simclr"``, ``"moco"``, ``"cmc"`` or ``"infograph"``.
        data: A known name or a path.
        correction: A correction by its name in the table, ``"oracle"``, ``"untrained"``, or for graphs ``"raw"``.
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
        choose("framework", self.framework, FRAMEWORKS)
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{each.name} is a number: expected a finite one, got {value}")
        if not isinstance(self, FRAMEWORKS[self.framework]):
            kind = FRAMEWORKS[self.framework].__name__
            raise ValueError(f"a run of {self.framework} is described by a {kind}, got a {type(self).__name__}")
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

    @staticmethod
    def from_json(record: dict[str, Any]) -> "RunConfig":
        """Read a configuration back: of the kind that its framework has, with known fields of the right types."""
        choose("framework", str(record.get("framework")), FRAMEWORKS)
        config: RunConfig = conform(record, FRAMEWORKS[str(record["framework"])], "the configuration")
        return config


@dataclass(frozen=True, kw_only=True)
class ImageConfig(RunConfig):
    """A run on images.

    Args:
        image_size: To what images are resized; by default their own size, of pictures in a folder at most 64.
        encoder: Name of an encoder, or ``"package.module:callable"``.
        stem: ``"small"`` for small images, ``"half"`` for the same at a quarter of the work, ``"ordinary"`` for large
            ones.
        width: Planes of the encoder's first stage; by default its usual number.
        dim: Dimension of the embeddings that are compared.
        temperature: What cosines are divided by.
        view_count: Views of each image (SimCLR).
        crop: Least share of an image that a view shows.
        flip: Chance that a view is mirrored; 0 where left and right differ in meaning, as in digits.
        blur: Chance that a view is blurred.
        queue_size: Keys that are remembered (MoCo).
        key_momentum: Share of the key encoder that stays at each step (MoCo).
        symmetric: Compare both ways (MoCo).
        splits: Parts of a batch with batch statistics of their own (MoCo).
        draws: Entries of the bank that are drawn at each step (CMC).
        bank_momentum: Share of a bank's entry that stays (CMC).
    """

    image_size: int | None = None
    encoder: str = "small"
    stem: Stem = "small"
    width: int | None = None
    dim: int = 128
    temperature: float = 0.5
    view_count: int = 2
    crop: float = 0.08
    flip: float = 0.5
    blur: float = 0.5
    queue_size: int = 4096
    key_momentum: float = 0.99
    symmetric: bool = False
    splits: int = 8
    draws: int = 4096
    bank_momentum: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_temperature(self.temperature)
        if not 0 <= self.key_momentum <= 1:
            raise ValueError(
                f"key_momentum is the share of the key encoder that stays: expected 0 to 1, got {self.key_momentum}"
            )
        if self.correction == RAW:
            raise ValueError("the raw features of nodes are a row for graphs: expected a correction, got 'raw'")


@dataclass(frozen=True, kw_only=True)
class GraphConfig(RunConfig):
    """A run on graphs.

    Args:
        features: What is seen of a node: ``"default"``, ``"labels"``, ``"attributes"``, ``"labels+attributes"``,
            ``"degree"`` or ``"ones"``.
        hidden: Dimension of each layer of the encoder.
        layers: How many; a node knows of its surroundings as far as so many steps.
        share: Who shares one estimate over negatives, and one floor: the nodes of a ``"graph"``, no ``"node"`` with
            another, or the whole ``"batch"``.
        temperature: What cosines are divided by; by default scores are plain inner products, as InfoGraph has them.
        compat: ``"hcl"`` takes the loss as HCL's authors published it, with its signs; by default as it is meant.
        probes: Which classifiers are fitted in the end, with commas between them.
    """

    epochs: int = 20
    batch_size: int = 128
    weight_decay: float = 0.0
    objective: ObjectiveName = "jensen_shannon"
    features: str = "default"
    hidden: int = 32
    layers: int = 3
    share: Share = "graph"
    temperature: float | None = None
    compat: Compat | None = None
    probes: str = ",".join(GRAPH_PROBES)

    def __post_init__(self) -> None:
        super().__post_init__()
        for probe in self.probes.split(","):
            choose("classifier of graphs", probe, GRAPH_PROBES)
        choose("features", self.features, CHOICES)
        if self.seed >= 2**32:
            raise ValueError(f"seed is that of the folds too: expected below 2^32 for graphs, got {self.seed}")
        if self.precision != "float32":
            raise ValueError(
                "sums over the nodes of a graph are too large for half precision: expected precision float32, got "
                f"{self.precision}"
            )
        choose("share", self.share, SHARES)
        if self.temperature is not None:
            check_temperature(self.temperature)
        elif self.objective == "infonce":
            raise ValueError(
                "InfoNCE compares by cosines: expected a temperature to divide them by, such as 0.5, got none"
            )
        if self.compat is not None:
            choose("compat", self.compat, COMPATS)
            self._check_compat()

    def _check_compat(self) -> None:
        if self.objective != "jensen_shannon" or self.temperature is not None or self.correction == ORACLE:
            raise ValueError(
                "compat='hcl' is the published loss of HCL: expected the Jensen-Shannon objective without a "
                f"temperature, and a correction, got {self.objective}, {self.temperature} and {self.correction}"
            )
        if not self.make_correction().is_tilted:
            raise ValueError(
                f"compat='hcl' is for corrections with a tilt (plain, deb, hard, pucl), got {self.correction}"
            )


FRAMEWORKS: dict[str, type[RunConfig]] = {
    "simclr": ImageConfig,
    "moco": ImageConfig,
    "cmc": ImageConfig,
    "infograph": GraphConfig,
}
"""By name: the kind of configuration that its runs have."""


def fields_of(framework: str) -> set[str]:
    """The fields of a configuration of this framework."""
    return {each.name for each in dataclasses.fields(FRAMEWORKS[framework])}


def known_fields() -> list[str]:
    """What any run can be told by: fields of its configuration, and settings of its correction."""
    fields = set.union(*(fields_of(framework) for framework in FRAMEWORKS))
    return sorted(fields.union(*(settings_of(correction) for correction in ROWS)))


def compares_cosines(config: RunConfig) -> bool:
    """Whether similarities are cosines; without a temperature they are inner products."""
    return getattr(config, "temperature", None) is not None


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
