"""What a run is: one frozen value that says everything, and is compared before anything is continued."""

import dataclasses
import difflib
from dataclasses import dataclass, field
from typing import Any

from pucl.contrast.compare import ObjectiveName
from pucl.contrast.objectives import Floor, check_floor
from pucl.contrast.pairing import check_temperature
from pucl.corrections import CORRECTIONS, Correction, Hard, Plain
from pucl.devices import PRECISIONS, Precision
from pucl.encoders.resnet import Stem
from pucl.training.optimisers import Schedule

FRAMEWORKS = ("simclr", "moco", "cmc")
PLAIN, ORACLE, UNTRAINED = "plain", "oracle", "untrained"
ROWS = (*CORRECTIONS, ORACLE, UNTRAINED)
"""What can stand in a row of a comparison: the corrections, the loss that knows the labels, and no training at all."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training and its evaluation.

    Args:
        framework: ``"simclr"``, ``"moco"`` or ``"cmc"``.
        data: A known name or a path.
        correction: A correction by its name in the table, ``"oracle"`` or ``"untrained"``.
        settings: Of the correction, such as ``{"alpha": 0.12, "c": 0.1}``.
        image_size: To what images are resized; None leaves them as they are.
        limit: Use only this many images for training, evenly over the classes; None uses all.
        encoder: Name of an encoder, or ``"package.module:callable"``.
        stem: ``"small"`` for small images, ``"half"`` for the same at a quarter of the work, ``"ordinary"`` for large
            ones.
        dim: Dimension of the embeddings that are compared.
        epochs: Passes over the data.
        batch_size: Samples in a step.
        temperature: What cosines are divided by.
        view_count: Views of each image (SimCLR).
        crop: Least share of an image that a view shows.
        flip: Chance that a view is mirrored; 0 where left and right differ in meaning, as in digits.
        blur: Chance that a view is blurred.
        optimiser: ``"adam"``, ``"sgd"`` or ``"lars"``.
        learning_rate: At its highest.
        momentum: Of SGD and LARS.
        weight_decay: Of the optimiser.
        schedule: ``"constant"``, ``"cosine"`` or ``"step"``.
        warmup_epochs: Epochs over which the learning rate rises.
        clip: Largest norm of a gradient, or None.
        queue_size: Keys that are remembered (MoCo).
        key_momentum: Share of the key encoder that stays at each step (MoCo).
        symmetric: Compare both ways (MoCo).
        splits: Parts of a batch with batch statistics of their own (MoCo).
        draws: Entries of the bank that are drawn at each step (CMC).
        bank_momentum: Share of a bank's entry that stays (CMC).
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        floor: Below what the estimate over negatives cannot fall.
        precision: In which encoder and head compute while they are trained: ``"float32"``, ``"bfloat16"`` or
            ``"float16"``.
        monitor: How many times in a training nearest neighbours within the training set are asked; 0 never.
        seed: Of everything random.
    """

    framework: str
    data: str
    correction: str = "pucl"
    settings: dict[str, float] = field(default_factory=dict)
    image_size: int | None = None
    limit: int | None = None
    encoder: str = "small"
    stem: Stem = "small"
    dim: int = 128
    epochs: int = 100
    batch_size: int = 256
    temperature: float = 0.5
    view_count: int = 2
    crop: float = 0.08
    flip: float = 0.5
    blur: float = 0.5
    optimiser: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 1e-6
    schedule: Schedule = "constant"
    warmup_epochs: int = 0
    clip: float | None = None
    queue_size: int = 4096
    key_momentum: float = 0.99
    symmetric: bool = False
    splits: int = 8
    draws: int = 4096
    bank_momentum: float = 0.5
    objective: ObjectiveName = "infonce"
    floor: Floor = "temperature"
    precision: Precision = "float32"
    monitor: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        choose("framework", self.framework, FRAMEWORKS)
        choose("correction", self.correction, ROWS)
        choose("precision", self.precision, PRECISIONS)
        check_temperature(self.temperature)
        check_floor(self.floor)
        if self.seed < 0:
            raise ValueError(f"seed is where random numbers start: expected 0 or more, got {self.seed}")
        if self.monitor < 0:
            raise ValueError(f"monitor is how many times to look: expected 0 or more, got {self.monitor}")
        self.make_correction()

    def make_correction(self) -> Correction:
        """The correction with its settings; the oracle and the untrained encoder correct nothing."""
        for name in self.settings:
            choose(f"setting of {self.correction}", name, settings_of(self.correction))
        if self.correction == UNTRAINED:
            return Plain()
        if self.correction == ORACLE:
            return Hard(tau_plus=0.0, beta=self.settings.get("beta", 0.0))
        return CORRECTIONS[self.correction](**self.settings)

    def as_json(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "RunConfig":
        """Back from JSON; fields that are unknown here are an error."""
        known = {each.name for each in dataclasses.fields(cls)}
        if unknown := record.keys() - known:
            raise ValueError(f"a configuration has known fields only: got {', '.join(sorted(unknown))} as well")
        return cls(**record)


def settings_of(correction: str) -> list[str]:
    """The settings that a row of a comparison takes; none for a name that is no row."""
    if correction == ORACLE:
        return ["beta"]
    kind = CORRECTIONS.get(correction)
    return [] if kind is None else [each.name for each in dataclasses.fields(kind)]


def choose(meaning: str, name: str, known: Any) -> None:
    """Refuse a name that is not among the known ones, and say which was probably meant."""
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{name!r} is no {meaning}: expected one of {', '.join(known) or 'none'}.{hint}")
