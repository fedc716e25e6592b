r"""The pairs that cost a loss most: pushed apart, though they probably belong together.

With :math:`p_{ij}` the share of anchor i's push that sample j takes (`pucl.diagnosis.cost`) and n samples,

.. math:: \text{cost}_{ij} = r_{ij}\, \frac{p_{ij} + p_{ji}}{n}

is the share of all push that the pair takes without being a true negative. Of up to 10,000 samples every one is an
anchor; of more, 10,000 random ones are. Each anchor is compared with its 32 most similar samples among all, which are
found exactly, and the sum in :math:`p_{ij}` is over up to 10,000 random samples.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.pairlist import write_table
from pucl.diagnosis.material import Divided, Material, Progress
from pucl.diagnosis.neighbours import nearest_of
from pucl.estimation.communities import nearest_points
from pucl.shapes import Bool, Float, Int, Tensor

ANCHORS = 10_000  # Most anchors, and most samples in the sum of an anchor's push.
NEIGHBOURS = 32  # Samples that an anchor is compared with.
EQUAL = 1e-5  # Distance (1 - cosine) of features up to which two samples are copies: rounding of float32.
NEAR = 0.1  # Two samples are near-duplicates if their distance is below this share of that of usual neighbours.
VOTERS = 10  # Neighbours whose labels are compared with that of a sample.
AGAINST = 0.8  # Share of them with another label from which a label is doubtful.
ROWS = 1 << 10

Kind = Literal["duplicate", "near-duplicate", "likely mislabelled", "same group"]


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A pair of samples that the loss pushes apart.

    Args:
        first: Index of the sample with the smaller index.
        second: Index of the other.
        first_name: What the first is called; None if its index is enough.
        second_name: What the second is called.
        similarity: Their cosine; with views, the mean of both directions.
        cost: Share of all push that the pair takes without being a true negative.
        r: How surely it is a false negative, 0 to 1; None if groups could not be told, so that only copies are listed.
        r_is: ``"probability"`` if labels showed that r is calibrated, otherwise ``"rank"``.
        kind: ``"duplicate"`` (equal features), ``"near-duplicate"`` (ten times closer than usual neighbours), ``"likely
            mislabelled"`` (different labels, and one of them is that of hardly any neighbour, or the two are copies) or
            ``"same group"``.
        first_label: Class of the first; None without labels.
        second_label: Class of the second.
    """

    first: int
    second: int
    first_name: str | None
    second_name: str | None
    similarity: float
    cost: float
    r: float | None
    r_is: Literal["probability", "rank"]
    kind: Kind
    first_label: str | None
    second_label: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Suspects:
    """Pairs that cost most, the costliest first.

    Args:
        pairs: The pairs.
        samples: Number of samples.
        anchors: Number of samples whose neighbours were looked at.
        temperature: The temperature of the loss.
    """

    pairs: tuple[Suspect, ...]
    samples: int
    anchors: int
    temperature: float

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Suspect]:
        return iter(self.pairs)

    @property
    def cost(self) -> float:
        """Share of all push that these pairs take."""
        return sum(pair.cost for pair in self.pairs)

    @property
    def kinds(self) -> dict[str, int]:
        """Number of pairs of each kind."""
        return dict(Counter(pair.kind for pair in self.pairs).most_common())

    def renumbered(self, indices: NDArray[np.int64]) -> "Suspects":
        """The same pairs with other indices: if the samples were chosen from more, those among all."""
        pairs = (replace(pair, first=int(indices[pair.first]), second=int(indices[pair.second])) for pair in self.pairs)
        return replace(self, pairs=tuple(pairs))

    def as_json(self) -> dict[str, Any]:
        """The pairs for a record."""
        return {**self._about(), "pairs": [asdict(pair) for pair in self.pairs]}

    def write(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Write a ``.csv``, ``.parquet`` or ``.json`` file, which ``pucl train --exclude`` and `pucl.pairs` read.

        Args:
            path: The file.
            about: What a ``.json`` file says beside the pairs.
        """
        columns = {each.name: [getattr(pair, each.name) for pair in self.pairs] for each in fields(Suspect)}
        write_table(Path(path), columns, {**(about or {}), **self._about()})

    def _about(self) -> dict[str, Any]:
        return {"samples": self.samples, "anchors": self.anchors, "temperature": self.temperature}


def find_suspects(
    divided: Divided,
    count: int,
    *,
    temperature: float,
    calibrated: bool,
    seed: int,
    progress: Progress,
    use_faiss: bool | None = None,
) -> Suspects:
    """The pairs that cost most; see `pucl.diagnosis.diagnose.Diagnosis.suspects`."""
    if count < 1:
        raise ValueError(f"count is the number of pairs to list: expected at least 1, got {count}")
    material, refused = divided.material, divided.granularity.refused is not None
    samples = len(material.embeddings)
    anchors = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))[:ANCHORS].sort().values
    at, _ = nearest_of(
        material.embeddings[anchors], anchors, material.keys, NEIGHBOURS, progress=progress, use_faiss=use_faiss
    )
    pairs = _each_once(anchors, at, samples)
    kinds = _Kinds(divided)
    # Without groups, copies alone are known to belong together.
    hidden = kinds.copies(pairs).float() if refused else _hidden(divided, pairs)
    some = hidden > 0
    pairs, hidden = pairs[some], hidden[some]
    push, similarity = _Pushes(material, anchors, temperature).of(pairs)
    cost = hidden * push / samples
    order = torch.argsort(cost, descending=True, stable=True)[:count]
    found = tuple(
        Suspect(
            first=first,
            second=second,
            first_name=material.name_of(first),
            second_name=material.name_of(second),
            similarity=float(similarity[index]),
            cost=float(cost[index]),
            r=None if refused else float(hidden[index]),
            r_is="probability" if calibrated else "rank",
            kind=kind,
            first_label=material.class_of(first),
            second_label=material.class_of(second),
        )
        for index, kind, (first, second) in zip(
            order.tolist(), kinds.of(pairs[order]), pairs[order].tolist(), strict=True
        )
    )
    return Suspects(pairs=found, samples=samples, anchors=len(anchors), temperature=temperature)


def _each_once(
    anchors: Int[Tensor, " anchor"], neighbours: Int[Tensor, "anchor neighbour"], samples: int
) -> Int[Tensor, "pair 2"]:
    """The pairs of anchors and their neighbours, each once, with the smaller index first."""
    both = torch.stack([anchors[:, None].expand_as(neighbours), neighbours], dim=-1).reshape(-1, 2)
    low, high = both.aminmax(dim=1)
    codes = (low * samples + high).unique()
    return torch.stack([codes // samples, codes % samples], dim=1)


def _hidden(divided: Divided, pairs: Int[Tensor, "pair 2"]) -> Float[Tensor, " pair"]:
    """R of each pair: the squared share of the partitions that have both samples together."""
    there, at = pairs.unique(return_inverse=True)
    groups = divided.groups_of(there)
    return (groups[at[:, 0]] == groups[at[:, 1]]).float().mean(dim=1).square()


class _Pushes:
    """How much of the push of their anchors pairs take."""

    def __init__(self, material: Material, others: Int[Tensor, " other"], temperature: float) -> None:
        self.material, self.others, self.temperature = material, others, temperature

    def of(self, pairs: Int[Tensor, "pair 2"]) -> tuple[Float[Tensor, " pair"], Float[Tensor, " pair"]]:
        """For each pair p_ij + p_ji, and its similarity: the mean over both directions."""
        there, at = pairs.unique(return_inverse=True)
        sums = torch.cat([self._log_sums(block) for block in there.split(ROWS)])[at]
        cosines = torch.cat([self._cosines(block) for block in pairs.split(ROWS)])
        return torch.exp(cosines / self.temperature - sums).sum(dim=1), cosines.mean(dim=1)

    def _cosines(self, pairs: Int[Tensor, "pair 2"]) -> Float[Tensor, "pair 2"]:
        """The cosine of each sample with the key of the other."""
        embeddings, keys = self.material.embeddings[pairs], self.material.keys[pairs]
        return (embeddings * keys.flip(1)).sum(dim=2)

    def _log_sums(self, samples: Int[Tensor, " some"]) -> Float[Tensor, " some"]:
        """The log of the sum of exponentials over all other samples, of which some stand for all."""
        logits = self.material.embeddings[samples] @ self.material.keys[self.others].T / self.temperature
        logits.masked_fill_(samples[:, None] == self.others, -torch.inf)
        met = (samples[:, None] != self.others).sum(dim=1)
        everyone = len(self.material.embeddings) - 1
        return torch.logsumexp(logits, dim=1) + torch.log(everyone / met)


class _Kinds:
    """What is behind pairs: copies, wrong labels, or groups."""

    def __init__(self, divided: Divided) -> None:
        self.divided = divided
        self.features = self._unit(divided.samples)
        nearest = torch.from_numpy(nearest_points(self.features, self.features, 1, skip_own=True))[:, 0]
        self.usual = float((1 - (self.features * self.features[nearest]).sum(dim=1)).median())

    def copies(self, pairs: Int[Tensor, "pair 2"]) -> Bool[Tensor, " pair"]:
        """Whether the samples of each pair are duplicates or near-duplicates."""
        return self._distances(pairs) <= max(EQUAL, NEAR * self.usual)

    def of(self, pairs: Int[Tensor, "pair 2"]) -> list[Kind]:
        """The kind of each pair."""
        copies, equal = self.copies(pairs), self._distances(pairs) <= EQUAL
        wrong = self._mislabelled(pairs, copies)
        return [
            "likely mislabelled" if bad else "duplicate" if same else "near-duplicate" if near else "same group"
            for bad, same, near in zip(wrong.tolist(), equal.tolist(), copies.tolist(), strict=True)
        ]

    def _mislabelled(self, pairs: Int[Tensor, "pair 2"], copies: Bool[Tensor, " pair"]) -> Bool[Tensor, " pair"]:
        """Pairs with different labels, if they are copies or one label is that of hardly any neighbour."""
        if self.divided.material.labels is None:
            return torch.zeros_like(copies)
        labels = torch.from_numpy(self.divided.material.labels)
        differ = labels[pairs[:, 0]] != labels[pairs[:, 1]]
        there, at = pairs[differ].unique(return_inverse=True)
        if not len(there):
            return differ
        near = torch.from_numpy(nearest_points(self._unit(there), self.features, VOTERS + 1))
        voters = self.divided.samples[near]
        votes = (labels[voters] != labels[there, None]) & (voters != there[:, None])
        doubtful = votes[:, :VOTERS].float().mean(dim=1) >= AGAINST
        wrong = differ.clone()
        wrong[differ] = copies[differ] | doubtful[at].any(dim=1)
        return wrong

    def _distances(self, pairs: Int[Tensor, "pair 2"]) -> Float[Tensor, " pair"]:
        blocks = [self._unit(block.flatten()).unflatten(0, (len(block), 2)) for block in pairs.split(ROWS)]
        return torch.cat([1 - (block[:, 0] * block[:, 1]).sum(dim=1) for block in blocks] or [torch.empty(0)])

    def _unit(self, samples: Int[Tensor, " some"]) -> Float[Tensor, "some feature"]:
        return torch.nn.functional.normalize(self.divided.material.features_of(samples), dim=1)
