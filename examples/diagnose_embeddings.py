"""Diagnosis of your own embeddings: how many of their negatives are false, what they cost, and which they are.

    python examples/diagnose_embeddings.py    # seconds on one core; needs scikit-learn

Nothing is trained. The embeddings here are the pixels of scikit-learn's digits; take those of your own model instead.
Labels are not needed. If there are any, the answer says how right the estimate is. The same from a shell:
`pucl diagnose embeddings.npz`, and `pucl suspects embeddings.npz -o pairs.csv`.
"""

import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits

import pucl


def main() -> None:
    """Diagnose, list the pairs that cost most, and use them in a loss."""
    digits = load_digits()
    embeddings = torch.tensor(digits.data - digits.data.mean(axis=0), dtype=torch.float32)
    labels = torch.tensor(digits.target)

    result = pucl.diagnose(embeddings, labels=labels, temperature=0.2)  # <- the one line that matters
    print(result)

    suspects = result.suspects(100)
    right = sum(pair.first_label == pair.second_label for pair in suspects)
    print(f"\n{right} of the {len(suspects)} costliest pairs are of one class. The first three:")
    for pair in suspects.pairs[:3]:
        print(f"  {pair.first} and {pair.second}: cosine {pair.similarity:.3f}, r {pair.r:.2f}, {pair.kind}")

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pairs.csv"
        suspects.write(file)  # pucl train --exclude pairs.csv reads it, and so do the losses:
        groups = pucl.pairs.read_groups(file, len(embeddings))
    rows = torch.arange(0, 256)
    loss = pucl.NTXentLoss()(embeddings[rows], embeddings[rows], groups=groups[rows])
    print(f"loss of a batch in which these pairs are no negatives: {float(loss):.3f}")


if __name__ == "__main__":
    main()
