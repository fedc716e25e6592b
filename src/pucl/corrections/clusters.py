"""Weights from communities of samples that two halves of the data agree on: no labels, no prior, no number of classes.

Lemma 1 pointwise needs r, the probability that a pair is a hidden positive. Two views of one sample say little about
two samples of one class, so here r comes from the samples: how often are both in one community?
"""

from dataclasses import dataclass, replace
from math import inf

import torch

from pucl.contrast.correction import Correction, CorrectionState, ExtraPositives, StateReport, check_range
from pucl.contrast.knowledge import UNKNOWN
from pucl.contrast.pairs import Comparison, Pairs
from pucl.contrast.pointwise import Pointwise
from pucl.corrections.plain import Plain
from pucl.estimation.communities import (
    DIRECTIONS,
    FEWEST,
    LARGEST,
    NARROWEST,
    REPEATABLE,
    RESOLUTIONS,
    Partitions,
    Whitening,
    divide_by_k_means,
    follow,
    mean_square_share,
    repeated_partitions,
    some_of,
)
from pucl.settings import setting
from pucl.shapes import Float, Int, Tensor

KEPT = 0.7  # Weight of an epoch's features relative to the next one's: about the last three epochs count.
FIRST_EPOCH = 2  # Features of the first epoch are those of a nearly untrained encoder.
OPENS = REPEATABLE  # Agreement from which communities are used.
SHUTS = 0.45  # Agreement below which they are no longer used. It is lower than `OPENS`, so that this rarely alternates.
RECENT = 1 << 14  # Samples since the last epoch ended that are remembered if samples have no names.
MATES = 8  # Most mates that an anchor attracts in a step. All of them do the same, and need more memory.
MEASURED = 1 << 7  # Keys up to which the removed share is measured for every anchor; beyond, for a part, to save time.

PARTITIONS = 2 * len(RESOLUTIONS)


@dataclass(frozen=True, kw_only=True)
class Clusters(Correction):
    r"""Weigh a pair by how often both samples are in one community, if communities repeat from half to half.

    At the end of an epoch, the remembered embeddings of the samples are divided into communities: P partitions, each
    found in a half of the samples and given to all. For samples i and j

    .. math:: r_{ij} = \Big(\frac{1}{P} \sum_{k=1}^{P} [g_k(i) = g_k(j)]\Big)^2, \qquad w_j \propto 1 - r_{ij},
              \qquad \omega = 0,

    with :math:`g_k(i)` the community of i by partition k. The square is closer to the share of such pairs that are of
    one class. At most half of plain's sum is removed for an anchor.

    With `attraction`, the sure mates of an anchor are positives as well: unlabelled samples that all partitions have
    together with it (r = 1), at most 8 of them. The weights of an anchor's mates sum to `attraction`; its given
    positive weighs 1.

    This is `Plain`, bit by bit, in the first two epochs, and as long as the partitions of two halves disagree: their
    adjusted Rand index must reach 0.55, and must not fall below 0.45 afterwards.

    Nothing has to be known of the data. A loss with ``samples=`` and ``ids=`` remembers every sample, as a training
    does. Without ids it remembers the samples of the current epoch, and assigns them to the communities of the epoch
    before, by their embeddings.
    """

    attraction: float = setting(
        0.0,
        "total weight of an anchor's sure mates, >= 0; a given positive weighs 1. Sure mates are unlabelled samples "
        "that every partition puts together with the anchor: they become positives",
    )
    shuffled: bool = setting(
        default=False,
        meaning="a control: give each sample the communities of another one",
    )
    k: int | None = setting(
        None, "a control: divide by k-means into this many clusters, at least 2; default: communities, of any number"
    )

    def __post_init__(self) -> None:
        check_range("attraction", "the weight of sure mates", self.attraction, ">= 0", 0 <= self.attraction < inf)
        check_range("k", "the number of clusters", self.k, "at least 2", self.k is None or self.k >= 2)

    def start(self, samples: int | None) -> "ClusterState":
        """The memory of the samples, or of recent ones if their number is not known."""
        return RecentClusterState(self) if samples is None else ClusterState(self, samples)

    def never_corrects(self, epochs: int) -> str | None:
        """Say so if communities would be found too late."""
        if epochs > FIRST_EPOCH:
            return None
        found = f"communities are found from the end of epoch {FIRST_EPOCH} on, and the training has {epochs}"
        return f"{found}: nothing will be corrected; try more epochs"

    def divide(self, points: Float[Tensor, "sample direction"], seed: int) -> Partitions:
        """Divide the samples, in several ways."""
        return repeated_partitions(points, seed, None if self.k is None else divide_by_k_means(self.k))

    def assign(self, groups: Int[Tensor, "sample partition"], seed: int) -> Int[Tensor, "sample partition"]:
        """The communities of each sample; with `shuffled`, each sample gets the communities of another one."""
        if not self.shuffled:
            return groups
        return groups[torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed))]


class ClusterState(CorrectionState):
    """A feature of every sample, and its communities.

    Args:
        settings: The correction.
        samples: Number of samples.
    """

    features: Tensor
    known: Tensor
    groups: Tensor
    epochs: Tensor
    opened: Tensor
    repeatable: Tensor
    tau_plus: Tensor
    removed: Tensor
    measured: Tensor

    def __init__(self, settings: Clusters, samples: int) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("features", torch.empty(samples, 0))  # The dimension is known after the first step.
        self.register_buffer("known", torch.zeros(samples, dtype=torch.bool))
        self.register_buffer("groups", torch.full((samples, PARTITIONS), UNKNOWN))
        self.register_buffer("epochs", torch.tensor(0))
        self.register_buffer("opened", torch.tensor(False))
        self.register_buffer("repeatable", torch.tensor(0.0, dtype=torch.float64))
        self.register_buffer("tau_plus", torch.tensor(0.0, dtype=torch.float64))
        self.register_buffer("removed", torch.tensor(0.0, dtype=torch.float64))  # In the last epoch.
        self.register_buffer("measured", torch.zeros(2, dtype=torch.float64))  # In this one: sum, number of anchors.
        self._remembered = 0  # Samples when the last epoch ended, for its report.
        self._corrected = False  # Whether anything was corrected in that epoch.
        self._searched = False  # Whether communities were looked for when it ended.

    @property
    def sees(self) -> bool:
        """Whether communities repeat, so that they are used."""
        return bool(self.opened)

    def read(self, pairs: Pairs) -> Correction:
        """Weights by common communities, or plain."""
        pairs.sample_ids()  # Without them nothing would ever be learnt: say so at once.
        return self.weights(pairs) if self.sees else Plain()

    def weights(self, pairs: Pairs) -> Pointwise:
        """Weights by common communities."""
        groups = self.groups_of(pairs)

        def posterior(comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
            anchors, keys = comparison.sample_ids()
            return share_together(groups[anchors], groups[keys], comparison.unlabelled.dtype).square_()

        def attract(comparison: Comparison) -> ExtraPositives:
            return choose_mates(posterior(comparison), comparison, self.settings.attraction)

        return Pointwise(
            posterior=posterior,
            attract=attract if self.settings.attraction else None,
            of_samples=True,
            tau_plus=float(self.tau_plus),
        )

    def groups_of(self, pairs: Pairs) -> Int[Tensor, "sample partition"]:
        """A copy of the communities by sample. The last row is for unknown samples, whose id is -1."""
        del pairs
        return torch.cat([self.groups, self.groups.new_full((1, PARTITIONS), UNKNOWN)])

    def see(self, pairs: Pairs) -> Float[Tensor, "anchor number"]:
        """The embedding of each anchor, the share of plain's sum that was removed for it, and its number of copies.

        The share is -1 if it was not measured.
        """
        embeddings = pairs.embeddings()
        removed = embeddings.new_full((len(embeddings), 1), -1.0)
        if self.sees:
            weights, stride = self.weights(pairs), max(1, pairs.shape[1] // MEASURED)
            some = pairs.rows(slice(0, None, stride))
            removed[::stride, 0] = torch.cat([weights.removal(each).share for each in some.comparisons()])
        copies = removed.new_ones(len(removed)) if pairs.copies is None else pairs.copies.to(removed)
        return torch.cat([embeddings, removed, copies[:, None]], dim=1)

    def commit(self, ids: Int[Tensor, " anchor"] | None, seen: Float[Tensor, "anchor number"]) -> None:
        """Add the features of these samples to their remembered features. Older features weigh less.

        The sum need not be a mean: only its direction is used. A mean that starts at the first feature would give it
        three times the weight of its age, and the first encoder is nearly untrained.
        """
        ids = known_ids(ids)
        seen, removed, copies = seen[:, :-2], seen[:, -2].double(), seen[:, -1]
        self.measured += torch.stack([(removed.clamp_min(0) * copies).sum(), ((removed >= 0) * copies).sum()])
        named = ids >= 0
        samples, features = mean_features(ids[named], seen[named], copies[named])
        if self.features.shape[1] == 0:
            self.features = features.new_zeros(len(self.features), features.shape[1])
        if self.features.shape[1] != features.shape[1]:
            raise ValueError(
                f"this correction remembers embeddings of {self.features.shape[1]} dimensions: expected the same in "
                f"each step, got {features.shape[1]}"
            )
        features = features.to(self.features.dtype)
        faded = torch.where(self.known[samples][:, None], KEPT * self.features[samples], 0.0)
        self.features[samples] = faded + features
        self.known[samples] = True

    def end_epoch(self) -> None:
        """Find communities anew, and decide whether they repeat."""
        self.epochs += 1
        self._corrected = bool(self.measured[1] > 0)
        self.removed.copy_(self.measured[0] / self.measured[1].clamp_min(1))
        self.measured.zero_()
        known = self.known.nonzero()[:, 0]
        self._remembered = len(known)
        enough = len(known) >= FEWEST and self.features.shape[1] >= NARROWEST
        self._searched = int(self.epochs) >= FIRST_EPOCH and enough
        if self._searched:
            self.find(known)

    def find(self, known: Int[Tensor, " known"]) -> None:
        """Find communities among these samples."""
        features, seed = self.features[known].cpu(), int(self.epochs)
        whitening = Whitening.of(features)
        points = whitening(features)
        chosen = some_of(len(points), seed)
        found = self.settings.divide(points[chosen], seed)
        groups = found.groups
        if len(chosen) < len(points):
            groups = follow(points, points[chosen], found.groups)
            groups[chosen] = found.groups
        self.decide(replace(found, groups=groups))
        self.groups.fill_(UNKNOWN)
        if self.sees:
            self.groups[known] = self.settings.assign(groups, seed).to(self.groups.device)

    def decide(self, found: Partitions) -> None:
        """Decide whether these partitions repeat well enough to be used, and if so estimate tau' from them."""
        self.repeatable.fill_(found.repeatable)
        self.opened.fill_(found.repeatable >= (SHUTS if self.sees else OPENS))
        self.tau_plus.fill_(mean_square_share(found.groups) if self.sees else 0.0)

    def report(self) -> StateReport:
        """tau', the share removed, how repeatable communities are, and how many there are."""
        sizes = self._numbers_of_groups()
        numbers = {
            "tau_plus": float(self.tau_plus),
            "removed": float(self.removed),
            "repeatable": float(self.repeatable),
            "communities": sum(sizes) / len(sizes) if self.sees else 0.0,
        }
        return StateReport(numbers, self._sentence(sizes))

    def _numbers_of_groups(self) -> list[int]:
        return [int(column.max()) + 1 for column in self.groups.T]

    def _sentence(self, sizes: list[int]) -> str:
        if int(self.epochs) < FIRST_EPOCH:
            return f"plain so far: communities are looked for when epoch {FIRST_EPOCH} ends"
        removed = f"{float(self.removed):.0%} of plain's sum was removed in this epoch"
        agreement = f"two halves of the samples agree by {float(self.repeatable):.2f} (adjusted Rand index)"
        if self.sees:
            number = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
            found = f"{number} communities, on which {agreement}, tau' {float(self.tau_plus):.3f}"
            kept = f"kept, as an epoch of fewer than {FEWEST} samples finds none"
            when = "found at its end" if self._searched else kept
            return f"{removed if self._corrected else 'plain in this epoch'}; {when}: {found}"
        if self._corrected:
            return f"{removed}; plain from now on: {agreement}, and {SHUTS} is needed to go on"
        if self._remembered == 0:
            return "plain: no step was seen in this epoch; a loss learns in training mode, with gradients"
        if self._remembered < FEWEST:
            return f"plain: {self._remembered} samples were seen, and communities need at least {FEWEST}"
        if self.features.shape[1] < NARROWEST:
            return (
                f"plain: embeddings have {self.features.shape[1]} dimensions, and communities need at least {NARROWEST}"
            )
        return f"plain: {agreement}, and {OPENS} is needed"


class RecentClusterState(ClusterState):
    """The same for samples without names: it remembers the samples of this epoch, and the last epoch's communities.

    A sample is named by its index in a ring. The ring is emptied when an epoch ends: otherwise a sample would be in it
    several times, be its own neighbour, and be found again in the other half. New samples are given to communities by
    the majority of their neighbours among the remembered samples of the epoch before.
    """

    place: Tensor
    mean: Tensor
    directions: Tensor
    points: Tensor
    groups_of_points: Tensor

    def __init__(self, settings: Clusters) -> None:
        super().__init__(settings, RECENT)
        self.register_buffer("place", torch.tensor(0))
        self.register_buffer("mean", torch.empty(0))
        self.register_buffer("directions", torch.empty(0, DIRECTIONS))
        self.register_buffer("points", torch.zeros(LARGEST, DIRECTIONS))
        self.register_buffer("groups_of_points", torch.full((LARGEST, PARTITIONS), UNKNOWN))

    def name_samples(self, batch: int) -> Int[Tensor, " batch"]:
        """Indices in the ring; -1 for the samples that do not fit, if the batch is larger than the ring."""
        numbers = torch.arange(batch, device=self.place.device)
        return torch.where(numbers < RECENT, (self.place + numbers) % RECENT, UNKNOWN)

    def groups_of(self, pairs: Pairs) -> Int[Tensor, "sample partition"]:
        """The communities of the samples in this step, by their embeddings."""
        groups = self.groups.new_full((RECENT + 1, PARTITIONS), UNKNOWN)
        _, keys = pairs.sample_ids()
        named = keys >= 0
        samples, features = mean_features(keys[named], torch.nn.functional.normalize(pairs.key.detach()[named], dim=1))
        there = self.groups_of_points[:, 0] >= 0
        points = Whitening(self.mean.to(features.dtype), self.directions.to(features.dtype))(features)
        found = follow(points, self.points[there].to(points.dtype), self.groups_of_points[there])
        groups[samples] = self.settings.assign(found.cpu(), int(self.epochs)).to(groups.device)
        return groups

    def commit(self, ids: Int[Tensor, " anchor"] | None, seen: Float[Tensor, "anchor number"]) -> None:
        """Put the features of these samples into the ring."""
        ids = known_ids(ids)
        self.known[ids[ids >= 0]] = False  # These rows of the ring hold older samples.
        super().commit(ids, seen)
        self.place.copy_((self.place + len(ids[ids >= 0].unique())) % RECENT)

    def end_epoch(self) -> None:
        """Find communities, then empty the ring."""
        super().end_epoch()
        self.known.zero_()
        self.place.zero_()

    def find(self, known: Int[Tensor, " known"]) -> None:
        """Find communities among these samples, and keep the points by which new samples are assigned to them."""
        seed = int(self.epochs)
        features = self.features[known].cpu()[some_of(len(known), seed)]
        whitening = Whitening.of(features)
        points = whitening(features)
        found = self.settings.divide(points, seed)
        self.decide(found)
        self.groups_of_points.fill_(UNKNOWN)
        self.mean, self.directions = (each.to(self.place.device) for each in (whitening.mean, whitening.directions))
        if self.sees:
            self.points[: len(points)] = points.to(self.points)
            self.groups_of_points[: len(points)] = found.groups.to(self.place.device)

    def _numbers_of_groups(self) -> list[int]:
        return [int(column.max()) + 1 for column in self.groups_of_points.T]


def share_together(
    anchors: Int[Tensor, "anchor partition"], keys: Int[Tensor, "unlabelled partition"], dtype: torch.dtype
) -> Float[Tensor, "anchor unlabelled"]:
    """The share of the partitions that have an anchor and an unlabelled sample together; 0 if one is not known."""
    anchors = torch.where(anchors == UNKNOWN, UNKNOWN - 1, anchors)  # Two unknown samples are not together.
    share = torch.zeros(len(anchors), len(keys), dtype=dtype, device=keys.device)
    for own, other in zip(anchors.T, keys.T, strict=True):
        share += own[:, None] == other[None, :]
    return share.div_(anchors.shape[1])


def choose_mates(hidden: Float[Tensor, "anchor unlabelled"], comparison: Comparison, weight: float) -> ExtraPositives:
    """Sure mates of each anchor, at most `MATES` of them, whose weights sum to `weight`; none if it has no mates.

    The choice is arbitrary and can be repeated: it is made by the ids of the samples.

    Args:
        hidden: r of each pair. Sure mates have an r of 1.
        comparison: The pairs.
        weight: Weight of all mates of an anchor.
    """
    sure = hidden >= 1
    if comparison.mask is not None:
        sure &= comparison.mask
    anchors, keys = comparison.sample_ids()
    # The square makes it irregular, the prime bounds it: each anchor has an order of its own.
    order = (anchors[:, None] * 40_503 + keys * 30_011).remainder_(65_521).square_().remainder_(65_521)
    order = order * len(keys) + torch.arange(len(keys), device=keys.device)  # Views of one sample are not tied.
    last = torch.iinfo(order.dtype).max
    first = order.masked_fill_(~sure, last).topk(min(MATES, len(keys)), dim=1, largest=False)
    chosen = (first.values < last).to(hidden.dtype)
    return ExtraPositives(first.indices, chosen * weight / chosen.sum(dim=1, keepdim=True).clamp_min(1))


def known_ids(ids: Int[Tensor, " anchor"] | None) -> Int[Tensor, " anchor"]:
    """The ids of the anchors; raise if they are not known."""
    if ids is None:
        raise ValueError("this correction groups samples by their ids: expected the ids of the anchors, got none")
    return ids


def mean_features(
    ids: Int[Tensor, " anchor"],
    embeddings: Float[Tensor, "anchor dim"],
    copies: Float[Tensor, " anchor"] | None = None,
) -> tuple[Int[Tensor, " sample"], Float[Tensor, "sample dim"]]:
    """The samples of a step, each once, and their features.

    A feature is the mean of the sample's embeddings, relative to the mean of the step: encoders move all embeddings
    alike, and samples of the first and of the last step of an epoch would differ by that. An anchor that stands for
    several equal ones counts as often.
    """
    copies = embeddings.new_ones(len(embeddings)) if copies is None else copies
    samples, row = ids.unique(return_inverse=True)
    mean = (embeddings * copies[:, None]).mean(dim=0) / copies.mean()
    directions = torch.nn.functional.normalize(embeddings - mean, dim=1) * copies[:, None]
    sums = directions.new_zeros(len(samples), embeddings.shape[1]).index_add_(0, row, directions)
    return samples, sums / copies.new_zeros(len(samples)).index_add_(0, row, copies)[:, None]
