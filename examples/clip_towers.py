"""CLIP-like towers: two encoders, a learnt logit scale, and captions that say the same in other words.

    python examples/clip_towers.py       # seconds on one core; needs torch alone

Images and captions are generated. There are 400 captions with 20 meanings, so about one in twenty of the other captions
in a batch would fit the image as well: it is a false negative. Retrieval asks for captions with the image's meaning.
"""

import torch
from torch import nn

import pucl
from pucl.adapters import TwoTowerLoss

MEANINGS, CAPTIONS, IMAGES = 20, 400, 2000


def generated() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images, captions, the caption of each image, and the meaning of each caption."""
    torch.manual_seed(0)
    vectors, meaning = torch.randn(MEANINGS, 12), torch.arange(CAPTIONS) % MEANINGS
    caption = torch.arange(IMAGES) % CAPTIONS
    texts = (vectors[meaning] + 0.8 * torch.randn(CAPTIONS, 12)) @ torch.randn(12, 48)
    images = (vectors[meaning[caption]] + 0.8 * torch.randn(IMAGES, 12)) @ torch.randn(12, 64)
    return images, texts, caption, meaning


def tower(size: int) -> nn.Module:
    """A small encoder."""
    return nn.Sequential(nn.Linear(size, 64), nn.ReLU(), nn.Linear(64, 32))


def train(criterion: TwoTowerLoss) -> float:
    """Train two towers, and return the share of captions with the right meaning among the first 20."""
    images, texts, caption, meaning = generated()
    image_tower, text_tower = tower(64), tower(48)
    log_scale = nn.Parameter(torch.tensor(10.0).log())
    optimiser = torch.optim.Adam([*image_tower.parameters(), *text_tower.parameters(), log_scale], lr=3e-3)
    for _ in range(100):
        batch = torch.randint(IMAGES, (256,))
        features = image_tower(images[batch]), text_tower(texts[caption[batch]])
        loss = criterion(*features, log_scale.exp(), groups=caption[batch])  # Equal captions are known to belong.
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        found = (image_tower(images) @ nn.functional.normalize(text_tower(texts), dim=1).T).topk(20, dim=1).indices
    return float((meaning[found] == meaning[caption][:, None]).float().mean())


def main() -> None:
    """Compare CLIP's own loss with one that estimates how many captions are false negatives."""
    plain = TwoTowerLoss(pucl.NTXentLoss())  # Without groups it is CLIP's loss, to the last digit.
    corrected = TwoTowerLoss(pucl.RatioLoss())  # <- the one line that matters

    before, after = train(plain), train(corrected)
    print(f"estimated share of false negatives: {corrected.loss.tau_plus:.3f}")
    print(f"captions of the right meaning: {before:.3f} with CLIP's loss, {after:.3f} corrected")


if __name__ == "__main__":
    main()
