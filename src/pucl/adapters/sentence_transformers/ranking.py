"""MultipleNegativesRankingLoss, corrected."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns

from pucl import processes
from pucl.adapters.adapter import Adapter, joined
from pucl.adapters.sentence_transformers.rows import Numbering, Rows, Sides, know_rows, text_numbers
from pucl.contrast.correction import Correction, StateReport
from pucl.contrast.embeddings import as_embeddings, check_alike, unit
from pucl.contrast.knowledge import UNKNOWN
from pucl.contrast.loss import Outcome, outcome_of
from pucl.contrast.objective import Floor
from pucl.contrast.pairing import SMALLEST_TEMPERATURE, check_ids, pair_up
from pucl.contrast.pairs import Pairs
from pucl.corrections import CORRECTIONS, Plain
from pucl.floored import user_level
from pucl.losses import ContrastiveLoss
from pucl.shapes import Float, Int, Tensor
from pucl.texts import counted, did_you_mean

Direction = Literal["query_to_doc", "doc_to_query"]
"""Whose texts are anchors: queries that look for documents, or documents that look for queries."""

Known = Literal["texts", "labels"]
"""How rows are known to belong together: they share a text, or a label."""


class RankingLoss(Adapter):
    r"""A corrected loss in place of MultipleNegativesRankingLoss, for any trainer of sentence-transformers.

    A row of the data has two texts or more: a query, its document, and hard negatives if there are any. A query is an
    anchor, and its document is the positive. All other documents and all hard negatives of the batch are unlabelled:
    some of them answer the query too. With the scale s, the logit of two texts is :math:`s \cos`. Without a correction,
    and without equal texts in a batch, this is MultipleNegativesRankingLoss.

    Args:
        model: The SentenceTransformer that is trained.
        correction: How to treat the unlabelled texts: a name in `pucl.corrections.CORRECTIONS` for its default
            settings, a correction, or None (default) for no correction. ``"ratio"`` weighs each text by the
            probability that it is a true negative, estimates all it needs, has no floor, and is plain until it has
            counted 1,000 pairs.
        scale: 1 / temperature, > 0. Default: 20.
        gather_across_devices: Compare with the texts of all processes. The loss is then that of the whole batch.
        directions: ``"query_to_doc"`` (default), ``"doc_to_query"`` or both: whose texts are anchors. With both, the
            loss is the mean of the two, which the library calls ``partition_mode="per_direction"``.
        groups: How rows are known to belong together. ``"texts"`` (default): they share a query or a document, by its
            tokens. ``"labels"``: they have the same integer in the column ``label`` of the data, -1 for no group. Both
            may be given. Rows are joined through other rows too. ``()``: nothing is known, as in the library.
        attract: Whether documents of the query's group are positives (default). Otherwise they are left out.
        floor: Lower limit of the estimate over negatives; see `pucl.contrast.objectives.Floor`.
        streaming: Whether to compute without holding all pairs at once. None (default): where that is faster.
        samples: Number of rows in the training data, for corrections that remember every row. ``"glofnd"`` needs it,
            ``"clusters"`` and ``"auto"`` see better with it.

    A text is never a negative of itself or of its own partner. A hard negative counts as one for every query of the
    batch, unless it is a text of the query's group.

    After a call, ``last`` holds its `Outcome`. Corrections that learn need a `CorrectionCallback`, or a call of
    `end_epoch` after each epoch. They do not learn under ``no_grad``, as in the trainer's evaluation.

    Reference:
        Henderson et al., "Efficient Natural Language Response Suggestion for Smart Reply", 2017.

    Example::

        model = SentenceTransformer("all-MiniLM-L6-v2")
        loss = RankingLoss(model)
        trainer = SentenceTransformerTrainer(model=model, train_dataset=pairs, loss=loss)
        trainer.add_callback(CorrectionCallback(trainer))
        trainer.train()
    """

    def __init__(
        self,
        model: SentenceTransformer,
        correction: str | Correction | None = None,
        scale: float = 20.0,
        *,
        gather_across_devices: bool = False,
        directions: Sequence[Direction] = ("query_to_doc",),
        groups: Sequence[Known] = ("texts",),
        attract: bool = True,
        floor: Floor = "auto",
        streaming: bool | None = None,
        samples: int | None = None,
    ) -> None:
        _check_model(model)
        super().__init__(
            ContrastiveLoss(
                _correction(correction),
                temperature=1 / _checked_scale(scale),
                gather_distributed=gather_across_devices,
                floor=floor,
                streaming=streaming,
                samples=samples,
            )
        )
        self.model = model
        self.scale = scale
        self.directions = _chosen("directions are whose texts are anchors", directions, get_args(Direction))
        if not self.directions:
            raise ValueError("directions are whose texts are anchors: expected at least one, got none")
        self.groups = _chosen("groups are how rows are known to belong together", groups, get_args(Known))
        self.attract = attract
        self.numbering = None if samples is None else Numbering(samples)
        self._largest = 0

    def forward(
        self, sentence_features: Iterable[Mapping[str, Any]], labels: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """The loss of a batch.

        Args:
            sentence_features: The tokenised texts of each column: queries, documents, hard negatives.
            labels: The column ``label`` of the data, if it has one.
        """
        features = two_or_more(sentence_features)
        texts = self._texts(features)  # Before the model adds to the features.
        return self.compute_loss_from_embeddings(embed_columns(self.model, features), labels, texts)

    def compute_loss_from_embeddings(
        self,
        embeddings: Sequence[Float[Tensor, "row dim"]],
        labels: Tensor | None = None,
        texts: Int[Tensor, "row column"] | None = None,
    ) -> Float[Tensor, ""]:
        """The loss of a batch that is embedded already.

        Args:
            embeddings: Embeddings of queries, documents and hard negatives, normalised inside.
            labels: The known group of each row, used if ``groups`` has "labels".
            texts: A number for each text by its content, as `forward` makes it. None: all texts differ.
        """
        columns = [unit("embeddings", each) for each in _alike(two_or_more(embeddings))]
        labels = self._labels(labels, columns[0])
        sizes, device = self._sizes(columns, labels, texts), columns[0].device
        everywhere = [self._gather(column, sizes, device) for column in columns]
        texts, labels = (None if each is None else self._gather(each, sizes, device).cpu() for each in (texts, labels))
        start = sum(sizes[: processes.rank()]) if self.loss.together else 0
        own, rows = slice(start, start + len(columns[0])), len(everywhere[0])
        known = know_rows(rows, len(columns), texts if "texts" in self.groups else None, labels)
        names = self._names(rows, texts)
        outcomes: list[Outcome] = []
        pairs_of_step: list[Pairs] = []
        for direction in self.directions:
            sides, (anchors, positives, keys) = _compared(direction, known, columns, everywhere)
            if self._nothing_left(sides, rows):
                outcomes.append(self.loss.nothing_to_compare(anchors, positives))
                continue
            pairs = self._pairs(anchors, positives, keys, sides.own(own, keys.device), own, names)
            outcomes.append(self._outcome(pairs))
            pairs_of_step.append(pairs)
        loss: Tensor = self.loss.settle(joined(outcomes))
        if pairs_of_step:
            self.loss.learn(*pairs_of_step)
        # Every column has a gradient, also one that is not compared: hard negatives of documents that search queries.
        return loss + sum(0.0 * column.sum() for column in columns)

    def end_epoch(self) -> StateReport | None:
        """Say that an epoch has ended; see `ContrastiveLoss.end_epoch`. `CorrectionCallback` does it."""
        return self.loss.end_epoch()

    @property
    def scale(self) -> float:
        """1 / temperature. It may be changed between two steps."""
        return self._scale

    @scale.setter
    def scale(self, scale: float) -> None:
        self._scale = _checked_scale(scale)
        self.loss.temperature = self.temperature

    @property
    def temperature(self) -> float:
        """1 / scale."""
        return 1 / self.scale

    def get_config_dict(self) -> dict[str, Any]:
        """The settings, for the model card."""
        return {
            "correction": str(self.loss.correction),
            "scale": self.scale,
            "similarity_fct": "cos_sim",
            "gather_across_devices": self.loss.gather_distributed,
            "directions": self.directions,
            "partition_mode": "per_direction",
            "groups": self.groups,
            "attract": self.attract,
            "floor": self.loss.floor,
            "samples": self.loss.samples,
        }

    @property
    def citation(self) -> str:
        """The paper on the correction, for the model card."""
        return """
@misc{wang2024contrastive,
    title={Contrastive Learning with Negative Sampling Correction},
    author={Lu Wang and Chao Du and Pu Zhao and Chuan Luo and Zhangchi Zhu and Bo Qiao and Wei Zhang and Qingwei Lin
            and Saravan Rajmohan and Dongmei Zhang and Qi Zhang},
    year={2024},
    eprint={2401.08690},
    archivePrefix={arXiv},
    primaryClass={cs.LG}
}
"""

    def _texts(self, features: Sequence[Mapping[str, Any]]) -> Int[Tensor, "row column"] | None:
        """A number for each text, if contents are compared or remembered."""
        return text_numbers(features) if "texts" in self.groups or self.numbering is not None else None

    def _labels(self, labels: Tensor | None, queries: Float[Tensor, "row dim"]) -> Int[Tensor, " row"] | None:
        """The known groups of the rows, if labels are used."""
        if "labels" not in self.groups:
            return None
        meaning = "has the known group of each row, -1 for none"
        if labels is None:
            raise ValueError(
                f"the column label {meaning}: expected one in the data, named label, labels, score or scores, got "
                f"none; without one leave 'labels' out of groups"
            )
        check_ids("the column label", labels, len(queries), queries.device, meaning)
        return labels.to(torch.int64)

    def _sizes(self, columns: Sequence[Tensor], labels: Tensor | None, texts: Tensor | None) -> list[int]:
        """Rows of each process. Every process raises if they are called in different ways."""
        first = columns[0]
        if not self.loss.together:
            return [len(first)]
        alike = {
            "the number of columns": len(columns),
            "the dimension": first.shape[1],
            "the size of a number in bytes": first.element_size(),
            "whether a gradient is needed": int(first.requires_grad and torch.is_grad_enabled()),
            "whether labels are given": int(labels is not None),
            "whether texts are given": int(texts is not None),
        }
        return processes.gather_sizes(len(first), first.device, alike=alike)

    def _gather(self, rows: Tensor, sizes: list[int], device: torch.device) -> Tensor:
        """The rows of this process, or of all processes."""
        return processes.gather(rows.to(device), sizes) if self.loss.together else rows

    def _names(self, rows: int, texts: Int[Tensor, "row column"] | None) -> Int[Tensor, " row"] | None:
        """The sample of each row, for corrections that remember samples; None for others."""
        if self.loss.learnt is None:
            return None
        if self.numbering is None:
            return self.loss.learnt.name_samples(rows)
        if texts is None:
            raise ValueError("rows are remembered by their texts: expected texts, got None; leave samples out")
        return self.numbering(texts, learn=self.training and torch.is_grad_enabled())  # type: ignore[no-any-return]

    def _nothing_left(self, sides: Sides, rows: int) -> bool:
        """Whether this batch has nothing to compare with. That is an error, unless it is a smaller last batch."""
        largest, self._largest = self._largest, max(self._largest, rows)
        if not sides.nothing_left:
            return False
        what = (
            f"texts of one group are no negatives of each other: expected a batch of two groups or more, got one of "
            f"{counted(rows, 'row')} that are all of one group"
            if rows > 1
            else "the other rows of a batch are what a text is compared with: expected at least two rows, got one"
        )
        if rows >= largest:
            raise ValueError(
                f"{what}; shuffle the data, take larger batches, or leave out the texts and labels that join "
                f"everything (groups= says what joins rows)"
            )
        warnings.warn(
            f"{what}. The loss of this smaller batch is 0; set dataloader_drop_last=True to leave it out",
            UserWarning,
            stacklevel=user_level(),
        )
        return True

    def _pairs(
        self,
        anchors: Float[Tensor, "anchor dim"],
        positives: Float[Tensor, "anchor dim"],
        keys: Float[Tensor, "key dim"],
        sides: Sides,
        own: slice,
        names: Int[Tensor, " row"] | None,
    ) -> Pairs:
        """The anchors of this process against all candidates."""
        sides = sides if self.attract else sides.without_groups()
        pairs = pair_up(
            anchors,
            positives,
            keys,
            temperature=self.loss.temperature,
            mask=sides.mask(),
            query_ids=sides.positives,
            unlabelled_ids=sides.keys,
            query_groups=sides.groups,
            unlabelled_groups=sides.key_groups,
            normalize=False,
        )
        if names is None:
            return replace(pairs, query_samples=None, key_samples=None)
        # Hard negatives are given as negatives: they are no samples that could turn out to be positives.
        of_keys = torch.full((len(keys),), UNKNOWN)
        of_keys[: len(names)] = names
        return replace(pairs, query_samples=names[own].to(keys.device), key_samples=of_keys.to(keys.device))

    def _outcome(self, pairs: Pairs) -> Outcome:
        """The outcome of pairs. Rows that were never trained on are compared without a correction that knows rows."""
        if self.numbering is not None and pairs.query_samples is not None and bool((pairs.query_samples < 0).any()):
            return outcome_of(pairs, Plain(), floor=self.loss.floor, streaming=self.loss.streaming)
        return self.loss.outcome(pairs)


def _check_model(model: object) -> None:
    """Raise for anything but a SentenceTransformer."""
    if not isinstance(getattr(model, "_orig_mod", model), SentenceTransformer):  # torch.compile wraps it.
        raise TypeError(
            f"model embeds the texts: expected a SentenceTransformer, got {type(model).__name__}; load one with "
            f"SentenceTransformer(name_or_directory)"
        )


def _checked_scale(scale: object) -> float:
    """Return the scale; raise if it is no number above 0."""
    number = isinstance(scale, int | float) and not isinstance(scale, bool)
    if not number or not 0 < scale < 1 / SMALLEST_TEMPERATURE:  # type: ignore[operator]  # It is a number.
        raise ValueError(
            f"scale is 1 / temperature, by which cosines are multiplied: expected 0 < scale < "
            f"{1 / SMALLEST_TEMPERATURE:g}, got {scale!r}"
        )
    return float(scale)  # type: ignore[arg-type]


def _correction(correction: str | Correction | None) -> Correction:
    """A correction by its name, as it is, or none."""
    if correction is None:
        return Plain()
    if not isinstance(correction, str):
        return correction
    if correction not in CORRECTIONS:
        raise ValueError(
            f"correction says how to treat unlabelled texts: expected one of {', '.join(CORRECTIONS)}, a correction, "
            f"or None, got {correction!r}.{did_you_mean(correction, CORRECTIONS)}"
        )
    return CORRECTIONS[correction]()


def _chosen(meaning: str, given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """The given names, once each; raise for others."""
    names = (given,) if isinstance(given, str) else tuple(given)
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise ValueError(f"{meaning}: expected some of {', '.join(known)}, each once, got {', '.join(map(str, names))}")
    return names


def two_or_more(given: Iterable[Any]) -> list[Any]:
    """The columns of a batch; raise if there are too few."""
    columns = list(given)
    if len(columns) < 2:
        raise ValueError(
            f"a row has a query and its document, then hard negatives: expected two columns of texts or more, got "
            f"{len(columns)}; check the columns of the data set, whose order counts"
        )
    return columns


def _alike(columns: Sequence[Tensor]) -> list[Tensor]:
    """Embeddings of all columns; raise if they do not fit together."""
    named = [(f"column {number}", as_embeddings(f"column {number}", each)) for number, each in enumerate(columns)]
    check_alike(*named)
    sizes = {len(column) for _, column in named}
    if len(sizes) > 1:
        raise ValueError(f"a row has a text in each column: expected columns of one length, got {sorted(sizes)}")
    return [column for _, column in named]


def _compared(
    direction: str, known: Rows, columns: Sequence[Tensor], everywhere: Sequence[Tensor]
) -> tuple[Sides, tuple[Tensor, Tensor, Tensor]]:
    """What is known of a direction, and its anchors, positives and candidates."""
    if direction == "query_to_doc":
        return known.query_to_doc, (columns[0], columns[1], torch.cat(list(everywhere[1:])))
    return known.doc_to_query, (columns[1], columns[0], everywhere[0])
