"""sentence-transformers: a corrected loss in its trainer, in place of MultipleNegativesRankingLoss.

    python examples/sentence_transformers_pairs.py    # seconds on one core; needs the extra ranking

Pairs are requests to an assistant that mean the same, of eight intents. In a batch of 64, about one in eight of the
other requests has the intent of the anchor as well: it is a false negative. The model is a table of word vectors; any
other SentenceTransformer is used in the same way.
"""

import tempfile

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from pucl.adapters.sentence_transformers import CorrectionCallback, RankingLoss
from pucl.evaluation.retrieval import rank_neighbours
from pucl.text.sources.requests import make_requests


def word_vectors(texts: list[str]) -> SentenceTransformer:
    """A model with one vector for each word."""
    words = sorted({word for text in texts for word in text.replace(",", " , ").split()} | {"?"})
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="?"))  # noqa: S106
    tokenizer.pre_tokenizer = Whitespace()
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu")


def pairs(texts: list[str], labels: list[int]) -> Dataset:
    """Two requests of one intent in each row: every request with the next but two of its intent."""
    second: dict[str, str] = {}
    for label in set(labels):
        same = [text for text, each in zip(texts, labels, strict=True) if each == label]
        second |= dict(zip(same, same[3:] + same[:3], strict=True))
    return Dataset.from_dict({"anchor": texts, "positive": [second[text] for text in texts]})


def retrieval(model: SentenceTransformer, texts: list[str], labels: list[int]) -> float:
    """Mean average precision of a search with every request for the others of its intent."""
    embeddings = model.encode(texts, convert_to_tensor=True, show_progress_bar=False)
    return float(rank_neighbours(embeddings, torch.tensor(labels)).average_precision.mean())


def main() -> None:
    """Train on pairs, and search with every test request for the others of its intent."""
    torch.manual_seed(0)
    data = make_requests(each=200)
    texts, labels = list(data.train.texts), [int(label) for label in data.train.labels]
    tests = list(data.test.texts), [int(label) for label in data.test.labels]
    model = word_vectors(texts)
    before = retrieval(model, *tests)

    loss = RankingLoss(model, correction="ratio", scale=20.0)  # <- the one line that matters

    with tempfile.TemporaryDirectory() as directory:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=directory,
            per_device_train_batch_size=64,
            num_train_epochs=3,
            learning_rate=0.05,
            logging_strategy="epoch",
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = SentenceTransformerTrainer(model, arguments, train_dataset=pairs(texts, labels), loss=loss)
        trainer.add_callback(CorrectionCallback(trainer))
        trainer.train()
    print(f"retrieval of intents: {before:.3f} untrained, {retrieval(model, *tests):.3f} trained")


if __name__ == "__main__":
    main()
