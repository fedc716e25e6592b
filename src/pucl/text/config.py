"""The settings of runs on texts."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pucl.config import RunConfig
from pucl.settings import setting
from pucl.text.encoders.registry import HASHED, is_pretrained
from pucl.text.sources.files import Columns


@dataclass(frozen=True, kw_only=True)
class TextConfig(RunConfig):
    """A run on texts: the settings that all frameworks for texts have."""

    unfit_probes: ClassVar[tuple[str, ...]] = ("svm", "svm_scaled", "linear-reference")

    modality: str = "texts"
    text_column: str | None = setting(
        None, "column of the texts, or of a pair's first texts; default: a usual name, such as text", group="data"
    )
    second_column: str | None = setting(
        None, "column of the second texts of pairs; default: a usual name, such as positive", group="data"
    )
    label_column: str | None = setting(
        None,
        "column of the classes; default: a usual name, such as label, if there are no second texts",
        group="data",
    )
    validation: bool = setting(
        False,
        "test on the validation texts, or on a fifth of the training texts, which are then not trained on: to choose "
        "settings without test texts",
        group="data",
    )
    encoder: str = setting(
        HASHED,
        "hashed (n-grams, trained from the start), or a model of sentence-transformers: its directory or name",
        group="encoder",
    )
    buckets: int = setting(16384, "rows of the hashed encoder's table of n-grams", group="encoder")
    width: int = setting(128, "dimension of the hashed encoder's output", group="encoder")

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_pretrained(self.encoder) and (model := Path(self.encoder).expanduser()).is_dir():
            # Absolute, like the path of data: the run is the same from wherever it is continued.
            object.__setattr__(self, "encoder", str(model.resolve()))
        for name, meaning in (("buckets", "the rows of a table"), ("width", "the dimension of the output")):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {meaning}: expected at least 1, got {getattr(self, name)}")

    @property
    def columns(self) -> Columns:
        """The columns of a file."""
        return Columns(text=self.text_column, second=self.second_column, label=self.label_column)

    @property
    def uses_groups(self) -> bool:
        """Whether pairs that share a text are positives of each other, and never negatives."""
        return False

    @property
    def known_positives(self) -> str:
        """What a known positive is, in words."""
        return "the two texts of a pair"

    @property
    def pretrained_model(self) -> str | None:
        """The model of sentence-transformers that the encoder starts from, if it does."""
        return self.encoder if is_pretrained(self.encoder) else None

    @property
    def fetched_model(self) -> str | None:
        """The same, if it is a name and no directory."""
        return None if Path(self.encoder).expanduser().is_dir() else self.pretrained_model
