"""The rows of a batch of texts: a query, its document, and perhaps hard negatives. What is known of them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from pucl.contrast.knowledge import UNKNOWN, group_or_row
from pucl.pairs import components
from pucl.shapes import Bool, Int, Tensor

NO_TEXTS = ("pixel_values", "pixel_values_videos", "input_features", "input_values")
"""Inputs of images, videos and sound: with one of them, tokens do not say what an input is."""

BYTES = 8  # Of a digest. Two of its bits are dropped: the losses double these numbers.


@dataclass(frozen=True)
class Sides:
    """Anchors of one side and the candidates of the other: which texts they are, and which belong together.

    Args:
        positives: Number of the text that is each anchor's positive.
        keys: Number of each candidate's text. Equal texts have equal numbers.
        anchors: Number of the text of each anchor, among the same numbers.
        groups: Known group of each anchor; None if no groups are known.
        key_groups: Known group of each candidate, -1 for none.
    """

    positives: Int[Tensor, " anchor"]
    keys: Int[Tensor, " key"]
    anchors: Int[Tensor, " anchor"]
    groups: Int[Tensor, " anchor"] | None
    key_groups: Int[Tensor, " key"] | None

    @property
    def nothing_left(self) -> bool:
        """Whether all candidates are one text or of one group, so that nothing is left to compare with."""
        numbers = self.keys if self.key_groups is None else group_or_row(self.key_groups, self.keys)
        return bool((numbers == numbers[0]).all())

    def own(self, rows: slice, device: torch.device) -> "Sides":
        """The anchors of these rows against all candidates, on a device."""
        return Sides(
            self.positives[rows].to(device),
            self.keys.to(device),
            self.anchors[rows].to(device),
            None if self.groups is None else self.groups[rows].to(device),
            None if self.key_groups is None else self.key_groups.to(device),
        )

    def without_groups(self) -> "Sides":
        """The same with groups that only exclude: their texts are no positives of each other."""
        if self.groups is None or self.key_groups is None:
            return self
        own, keys = group_or_row(self.groups, self.positives), group_or_row(self.key_groups, self.keys)
        return Sides(own, keys, torch.full_like(own, UNKNOWN), None, None)

    def mask(self) -> Bool[Tensor, "anchor key"] | None:
        """False where a candidate is the text of the anchor itself; None if no candidate is one."""
        if not torch.isin(self.anchors, self.keys).any():
            return None
        return self.anchors[:, None] != self.keys


class Rows(NamedTuple):
    """The sides of a batch: queries that look for documents, and documents that look for queries."""

    query_to_doc: Sides
    doc_to_query: Sides


def know_rows(
    rows: int, columns: int, texts: Int[Tensor, "row column"] | None, labels: Int[Tensor, " row"] | None
) -> Rows:
    """What is known of the rows of a batch.

    Rows that share a query, a document or a label belong to one group, also through other rows: a group is a connected
    component. A hard negative is of a group if it is one of its texts. Documents are numbered first, in order: without
    equal texts the document of row i has the number i.

    Args:
        rows: Number of rows.
        columns: Number of texts in a row: query, document, hard negatives.
        texts: A number for each text by its content, from `text_numbers`; None if contents are not compared.
        labels: Known group of each row, -1 for none; None if none are given.
    """
    numbers = torch.arange(rows * columns) if texts is None else _by_appearance(texts[:, _order(columns)].T.flatten())
    docs, queries, negatives = numbers[:rows], numbers[rows : 2 * rows], numbers[2 * rows :]
    candidates = torch.cat([docs, negatives])
    if texts is None and labels is None:
        return Rows(Sides(docs, candidates, queries, None, None), Sides(queries, queries, docs, None, None))
    groups = torch.from_numpy(components(_elements(queries, docs, labels)))
    of_text = torch.full((rows * columns,), UNKNOWN)
    of_text[queries], of_text[docs] = groups, groups
    return Rows(
        Sides(docs, candidates, queries, groups, of_text[candidates]),
        Sides(queries, queries, docs, groups, groups),
    )


def _order(columns: int) -> list[int]:
    """Documents first, then queries, then hard negatives."""
    return [1, 0, *range(2, columns)]


def _by_appearance(contents: Int[Tensor, " text"]) -> Int[Tensor, " text"]:
    """Number different contents from 0 in the order in which they appear."""
    different, which = contents.unique(return_inverse=True)
    first = torch.full((len(different),), len(contents)).scatter_reduce(
        0, which, torch.arange(len(contents)), reduce="amin"
    )
    return first.argsort().argsort()[which]


def _elements(
    queries: Int[Tensor, " row"], docs: Int[Tensor, " row"], labels: Int[Tensor, " row"] | None
) -> list[list[int]]:
    """What each row can share with others: its two texts, and its label if it has one. Labels are below 0."""
    rows = torch.stack([queries, docs], dim=1).tolist()
    if labels is None:
        return rows
    return [[*row, -1 - label] if label >= 0 else row for row, label in zip(rows, labels.tolist(), strict=True)]


def text_numbers(columns: Sequence[Mapping[str, Any]]) -> Int[Tensor, "row column"]:
    """A number for each text of a batch by its tokens: equal texts have equal numbers, in all processes.

    The numbers are digests. Two different texts of a million have the same one with a probability below 1e-6.

    Args:
        columns: The tokenised texts of each column: ``input_ids`` with ``attention_mask``, or all tokens in a row with
            the starts of the texts in ``cu_seq_lens_q`` or ``offsets``.
    """
    numbered = [[_digest(tokens) for tokens in _tokens(column)] for column in columns]
    sizes = {len(column) for column in numbered}
    if len(sizes) > 1:
        raise ValueError(
            f"a row has a text in each column: expected columns of one length, got {sorted(sizes)} texts in a column"
        )
    return torch.tensor(numbered).T


def _tokens(column: Mapping[str, Any]) -> list[bytes]:
    """The tokens of each text."""
    found = [name for name in NO_TEXTS if column.get(name) is not None]
    ids = column.get("input_ids")
    if found or not isinstance(ids, torch.Tensor):
        raise ValueError(
            f"equal texts are found by their tokens: expected texts (input_ids), got {', '.join(found or column)}; "
            f"pass groups=(), or groups=('labels',) if a column label has the group of each row"
        )
    tokens = ids.cpu().to(torch.int64)
    if "cu_seq_lens_q" in column:
        ends = column["cu_seq_lens_q"].tolist()[1:-1]
        return [each.numpy().tobytes() for each in tokens.flatten().tensor_split(ends)]
    if tokens.ndim == 1:
        return [each.numpy().tobytes() for each in tokens.tensor_split(column["offsets"].tolist()[1:])]
    mask = column.get("attention_mask")
    present = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask.cpu().bool()
    return [row[there].tobytes() for row, there in zip(tokens.numpy(), present.numpy(), strict=True)]


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=BYTES).digest(), "little") >> 2


class Numbering(nn.Module):
    """Number the rows of a data set as they come, for corrections that remember samples.

    Args:
        samples: Number of rows in the data.
    """

    contents: Tensor
    count: Tensor

    def __init__(self, samples: int) -> None:
        super().__init__()
        if samples < 1:
            raise ValueError(f"samples is the number of rows in the data: expected at least 1, got {samples}")
        self.register_buffer("contents", torch.zeros(samples, 2, dtype=torch.int64))
        self.register_buffer("count", torch.tensor(0))
        self._numbers: dict[tuple[int, ...], int] = {}

    def forward(self, texts: Int[Tensor, "row column"], *, learn: bool) -> Int[Tensor, " row"]:
        """The number of each row, by query and document; -1 for one that is new, unless it is to be learnt."""
        if len(self._numbers) != int(self.count):  # A state was loaded.
            known = self.contents[: int(self.count)].tolist()
            self._numbers = {tuple(content): number for number, content in enumerate(known)}
        found = []
        for content in map(tuple, texts[:, :2].tolist()):
            number = self._numbers.get(content, UNKNOWN)
            if number == UNKNOWN and learn:
                number = self._add(content)
            found.append(number)
        return torch.tensor(found)

    def _add(self, content: tuple[int, ...]) -> int:
        number = len(self._numbers)
        if number == len(self.contents):
            raise ValueError(
                f"samples is the number of rows in the training data: expected all of them, got samples={number} and "
                f"one more row; pass samples=len(train_dataset)"
            )
        self._numbers[content] = number
        self.contents[number] = torch.tensor(content)
        self.count += 1
        return number
