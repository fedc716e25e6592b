"""A small transformer of sentence-transformers over a handful of words, made in the test, and its inputs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
THINGS = ("lamp", "boat", "tree", "song", "coat", "door", "fish", "road")
QUERIES, DOCUMENTS = ("buy", "find", "see", "want"), ("the", "one", "some", "any")


def small_model(
    directory: Path, *, dropout: float = 0.0, width: int = 16, words: Iterable[str] = ()
) -> SentenceTransformer:
    """A transformer of two layers with random weights, always the same, in float64."""
    save_model(directory, dropout=dropout, width=width, words=words)
    return load_model(directory)


def save_model(directory: Path, *, dropout: float = 0.0, width: int = 16, words: Iterable[str] = ()) -> None:
    """Write its files. Of several processes only the first writes any."""
    known = [*SPECIAL.values(), *THINGS, *QUERIES, *DOCUMENTS, *(f"n{number}" for number in range(64)), *words]
    numbered = {word: number for number, word in enumerate(dict.fromkeys(known))}
    tokenizer = Tokenizer(models.WordLevel(numbered, unk_token=SPECIAL["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained(directory)
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(numbered),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    BertModel(config).save_pretrained(directory)


def load_model(directory: Path) -> SentenceTransformer:
    """Read its files."""
    transformer = Transformer(str(directory))
    pooling = Pooling(transformer.get_embedding_dimension())
    return SentenceTransformer(modules=[transformer, pooling], device="cpu").double()


def tokens(model: Any, columns: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """The inputs of a loss, as the trainer makes them."""
    return [model.preprocess(list(column)) for column in columns]


def columns_of(rows: int, columns: int = 2) -> list[list[str]]:
    """Different texts of different lengths: queries, documents, hard negatives."""
    return [
        [f"n{column} {THINGS[row % len(THINGS)]} n{row + 8} {'n4 ' * (row % 3)}".strip() for row in range(rows)]
        for column in range(columns)
    ]


def gradients(model: Any) -> torch.Tensor:
    """The gradients of all parameters, as one vector; zero where there is none."""
    every = [torch.zeros_like(each) if each.grad is None else each.grad for each in model.parameters()]
    return torch.cat([each.flatten() for each in every])


def step(loss: Any, features: Sequence[dict[str, Any]], labels: torch.Tensor | None = None) -> tuple[Any, Any]:
    """The loss of a batch, and the gradients of the model."""
    loss.model.zero_grad()
    value = loss([dict(column) for column in features], labels)
    value.backward()
    return value.detach(), gradients(loss.model)
