"""A recommender with two towers: accidental hits are left out, and popular items are corrected for sampling.

    python examples/recommender.py       # seconds on one core; needs torch alone

Purchases are generated: every user likes some directions of taste, and popular items are bought by everybody. Training
takes the items of the other users in the batch as unlabelled. The same item may be there twice (an accidental hit: no
negative), and a popular item is there far more often than others (its logit is lowered by log q).
"""

import torch
from torch import nn

import pucl
from pucl.adapters import TwoTowerLoss

USERS, ITEMS, DIM, TASTES, PURCHASES = 600, 300, 32, 8, 20


def purchases() -> tuple[torch.Tensor, torch.Tensor]:
    """The user and the item of each purchase; users buy by taste and by popularity."""
    users, items = torch.randn(USERS, TASTES), torch.randn(ITEMS, TASTES)
    popularity = 1.5 * torch.randn(ITEMS)
    bought = torch.multinomial((users @ items.T + popularity).softmax(dim=1), PURCHASES)
    return torch.arange(USERS).repeat_interleave(PURCHASES), bought.flatten()


def main() -> None:
    """Train on most purchases, and look for the others among all items."""
    torch.manual_seed(0)
    buyers, bought = purchases()
    kept = torch.rand(len(buyers)) < 0.8
    counts = torch.bincount(bought[kept], minlength=ITEMS) + 1  # Plus one: an item must not have log 0.
    log_q = (counts / counts.sum()).log()

    user_tower, item_tower = nn.Embedding(USERS, DIM), nn.Embedding(ITEMS, DIM)
    criterion = TwoTowerLoss(pucl.PUCLLoss(alpha=0.01, c=0.0))
    optimiser = torch.optim.Adam([*user_tower.parameters(), *item_tower.parameters()], lr=0.02)

    def recall() -> float:
        """Share of the purchases left out that are among the user's first 30 new items."""
        with torch.no_grad():
            scores = nn.functional.normalize(user_tower.weight) @ nn.functional.normalize(item_tower.weight).T
        scores[buyers[kept], bought[kept]] = -torch.inf
        first = scores.topk(30, dim=1).indices
        return float((first[buyers[~kept]] == bought[~kept, None]).any(dim=1).float().mean())

    before = recall()
    for _ in range(10):
        for batch in kept.nonzero()[:, 0][torch.randperm(int(kept.sum()))].split(512):
            users, items = buyers[batch], bought[batch]
            embeddings = user_tower(users), item_tower(items)
            loss = criterion(
                *embeddings, 10.0, ids=items, log_q=log_q[items], directions="first"
            )  # <- the one line that matters
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    print(f"last step: {criterion.last}")
    print(f"hidden purchases among the first 30 items: {before:.3f} untrained, {recall():.3f} trained")


if __name__ == "__main__":
    main()
