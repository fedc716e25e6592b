"""A generated world of users and items: who likes what is known, and popular items are clicked more often."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.adapters import TwoTowerLoss
from pucl.evaluation import record_key
from pucl.evaluation.retrieval import rank_items
from pucl.shapes import Float, Tensor
from study.pairs.rows import KNOWN, TRUTH, KnowingLoss, Row
from study.pairs.texts import HELD_OUT, TEST
from study.pairs.world import Numbers

Shares = NDArray[np.float64]
Indices = NDArray[np.int64]

USERS, ITEMS = "of_users", "of_items"  # The towers.
TOPICS, FACTORS, OBSERVED = 12, 16, 32  # Topics, latent factors, and observed features of users and items.


@dataclass(frozen=True, eq=False, kw_only=True)
class Recommender:
    r"""Users and items with latent factors, and clicks that follow relevance and popularity.

    A user likes two topics, an item is of one. Factors are their centres with noise, scaled to length one. The `liked`
    share of the items with the largest inner products is relevant to a user. A user clicks relevant items with
    probabilities proportional to their popularity, which is :math:`(\text{rank} + 10)^{-1}`. The towers see features:
    random functions of the factors, with noise.

    Args:
        users: Users that are trained on.
        others: Users for validation, and as many for tests. They clicked nothing.
        items: Number of items. A fifth of them is new: never clicked, never trained on.
        liked: Share of the items that is relevant to a user.
        batch: Pairs of a step.
    """

    users: int = 1500
    others: int = 500
    items: int = 1500
    liked: float = 0.05
    batch: int = 128

    @cached_property
    def relevant(self) -> NDArray[np.bool_]:
        """Whether an item is relevant to a user, [user, item]: first the users that are trained on."""
        users, items = self._factors
        affinity = users @ items.T
        least = np.sort(affinity, axis=1)[:, -round(self.liked * self.items)]
        found: NDArray[np.bool_] = affinity >= least[:, None]
        return found

    @cached_property
    def clickable(self) -> NDArray[np.bool_]:
        """Items that are not new, [item]."""
        return np.arange(self.items) % 5 > 0

    @cached_property
    def features(self) -> tuple[Float[Tensor, "user dim"], Float[Tensor, "item dim"]]:
        """What the towers see."""
        generator = np.random.default_rng(1)
        seen = []
        for factors in self._factors:
            mixing = 2 * generator.standard_normal((FACTORS, OBSERVED)) / np.sqrt(FACTORS)
            noise = 0.3 * generator.standard_normal((len(factors), OBSERVED))
            seen.append(torch.from_numpy((np.tanh(4 * factors @ mixing) + noise).astype(np.float32)))
        return seen[0], seen[1]

    @cached_property
    def _factors(self) -> tuple[Shares, Shares]:
        generator = np.random.default_rng(0)
        centres = generator.standard_normal((TOPICS, FACTORS))

        def with_noise(means: Shares) -> Shares:
            noisy = means + 0.6 * generator.standard_normal(means.shape)
            scaled: Shares = noisy / np.linalg.norm(noisy, axis=1, keepdims=True)
            return scaled

        liked = generator.random((self.users + 2 * self.others, TOPICS)).argsort(axis=1)[:, :2]
        return with_noise(centres[liked].sum(axis=1)), with_noise(centres[generator.integers(TOPICS, size=self.items)])

    def clicks(self, seed: int) -> Indices:
        """The items that each training user clicked, [user, click]."""
        generator = np.random.default_rng([seed, 2])
        popularity = 1 / (generator.permutation(self.items) + 10.0)
        chances = self.relevant[: self.users] * np.where(self.clickable, popularity, 0)
        # The largest of exponential variables over their rates are a draw without replacement.
        return np.argsort(generator.exponential(size=chances.shape) / np.maximum(chances, 1e-300), axis=1)[:, :KNOWN]

    def model(self, seed: int) -> nn.Module:
        """Two towers before training."""
        torch.manual_seed(seed)
        return nn.ModuleDict(
            {
                tower: nn.Sequential(nn.Linear(OBSERVED, 64), nn.ReLU(), nn.Linear(64, OBSERVED))
                for tower in (USERS, ITEMS)
            }
        )

    def training(self, row: Row, seed: int, *, validation: bool) -> "Clicks":  # noqa: ARG002 (other users validate)
        """Users with as many clicks as a row knows."""
        return Clicks(world=self, clicks=self.clicks(seed)[:, : row.known], at_once=row.at_once)

    @torch.no_grad()
    def measure(self, model: nn.Module, *, validation: bool) -> Mapping[str, Numbers]:
        """Search with users that clicked nothing among the items that were trained on, and among new ones."""
        start = self.users + (0 if validation else self.others)
        searching = np.arange(start, start + self.others)
        users, items = self.features
        parts = {TEST: self.clickable} | ({} if validation else {HELD_OUT: ~self.clickable})
        measured = {}
        for name, chosen in parts.items():
            relevant = self.relevant[searching][:, chosen]
            some = relevant.any(axis=1)
            found = rank_items(
                model.get_submodule(USERS)(users[searching[some]]).numpy(),
                model.get_submodule(ITEMS)(items[torch.from_numpy(chosen)]).numpy(),
                relevant[some],
            )
            measured[name] = {record_key("retrieval", key): value for key, value in found.means().items()}
        return measured


class Clicks:
    """The clicks of users, in batches of about as many users and items together for every row.

    Args:
        world: The world.
        clicks: Items that each user is known to have clicked, [user, click].
        at_once: How many of them are positives in a step.
    """

    def __init__(self, *, world: Recommender, clicks: Indices, at_once: int) -> None:
        self.world = world
        self.clicks = clicks
        self.at_once = at_once
        self.samples = world.items
        self.prior = world.liked  # After the correction for popularity, all items are as likely.
        counts = np.bincount(clicks.ravel(), minlength=world.items) + 1.0
        self.log_q = torch.from_numpy(np.log(counts / counts.sum()).astype(np.float32))
        self.known = np.zeros((len(clicks), world.items), dtype=np.bool_)
        np.put_along_axis(self.known, clicks, True, axis=1)

    def losses(self, model: nn.Module, loss: KnowingLoss, generator: torch.Generator) -> Iterator[Float[Tensor, ""]]:
        """The loss of each step of an epoch."""
        towers, users_seen, items_seen = TwoTowerLoss(loss), *self.world.features
        loss.once = True
        count = 2 * self.world.batch // (1 + self.at_once)
        orders = [torch.randperm(len(self.clicks), generator=generator) for _ in range(1 + self.at_once)]
        users_of = torch.cat(orders).split(count)
        for users in users_of[: len(self.clicks) // self.world.batch]:
            places = torch.rand(len(users), self.clicks.shape[1], generator=generator).argsort(dim=1)[:, : self.at_once]
            items = torch.from_numpy(self.clicks)[users[:, None], places].T.ravel()
            related = self.world.relevant[users] if loss.row.related == TRUTH else self.known[users]
            if loss.row.related == TRUTH or self.at_once > 1:
                loss.related = torch.from_numpy(related)[:, items]
            vectors = model.get_submodule(ITEMS)(items_seen[items])
            yield towers(
                model.get_submodule(USERS)(users_seen[users]),
                vectors[: len(users)],
                ids=items,
                negatives=vectors[len(users) :] if self.at_once > 1 else None,
                log_q=self.log_q[items],
                directions="first",
            )
