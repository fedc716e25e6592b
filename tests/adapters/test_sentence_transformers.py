"""The ranking losses: those of sentence-transformers where nothing is corrected or known, and loops elsewhere."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as library

import oracles
from examples import EXAMPLES, brief
from pucl.adapters.sentence_transformers import CachedRankingLoss, RankingLoss
from pucl.adapters.sentence_transformers.rows import know_rows, text_numbers
from pucl.contrast.loss import Outcome
from pucl.corrections import CORRECTIONS, PUCL, Correction, Debiased, GloFND, Ratio, Ring
from small_sentences import columns_of, gradients, small_model, step, tokens

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
BOTH: Any = ("query_to_doc", "doc_to_query")
both_ways = pytest.mark.parametrize("directions", [("query_to_doc",), BOTH], ids=["one way", "both ways"])
numbers_of_columns = pytest.mark.parametrize("columns", [2, 4])
ALL = [correction for examples in EXAMPLES.values() for correction in examples]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return small_model(tmp_path_factory.mktemp("model"))


class TestEqualsTheLibrary:
    @both_ways
    @numbers_of_columns
    @pytest.mark.parametrize("streaming", [False, True])
    def test_without_correction(self, model: Any, columns: int, directions: Any, streaming: bool) -> None:
        features = tokens(model, columns_of(7, columns))
        theirs = library.MultipleNegativesRankingLoss(model, directions=directions, partition_mode="per_direction")
        ours = RankingLoss(model, None, directions=directions, streaming=streaming)
        torch.testing.assert_close(step(ours, features), step(theirs, features), rtol=1e-6, atol=1e-9)

    @both_ways
    @numbers_of_columns
    def test_the_cached_form(self, model: Any, columns: int, directions: Any) -> None:
        features = tokens(model, columns_of(7, columns))
        settings: Any = {"mini_batch_size": 3, "directions": directions}
        theirs = library.CachedMultipleNegativesRankingLoss(model, partition_mode="per_direction", **settings)
        ours = CachedRankingLoss(model, None, **settings)
        torch.testing.assert_close(step(ours, features), step(theirs, features), rtol=1e-6, atol=1e-9)

    def test_scale(self, model: Any) -> None:
        features = tokens(model, columns_of(5))
        theirs = library.MultipleNegativesRankingLoss(model, scale=50.0)
        torch.testing.assert_close(step(RankingLoss(model, None, 50.0), features), step(theirs, features))
        changed = RankingLoss(model, None)
        changed.scale = 50.0
        torch.testing.assert_close(step(changed, features), step(theirs, features))

    def test_hard_negatives_of_documents_that_search_queries(self, model: Any) -> None:
        """They are not compared, but have a gradient of zero, which wrappers for several processes need."""
        columns = columns_of(5, 3)
        alone = step(RankingLoss(model, None, directions=("doc_to_query",)), tokens(model, columns[:2]))
        for kind in (RankingLoss, CachedRankingLoss):
            found = step(kind(model, None, directions=("doc_to_query",)), tokens(model, columns))
            torch.testing.assert_close(found, alone)

    def test_ratio_is_plain_until_it_has_counted(self, model: Any) -> None:
        features = tokens(model, columns_of(7))
        torch.testing.assert_close(
            step(RankingLoss(model, "ratio"), features), step(RankingLoss(model), features), rtol=0, atol=0
        )


class TestCached:
    @pytest.mark.parametrize("correction", ALL, ids=brief)
    @both_ways
    def test_equals_the_uncached_form(self, model: Any, correction: Correction, directions: Any) -> None:
        """Also the states of corrections that learn, over several steps and the end of an epoch."""
        settings: Any = {
            "scale": 2.0,
            "directions": directions,
            "samples": 24 if isinstance(correction, GloFND) else None,
        }
        once, cached = RankingLoss(model, correction, **settings), CachedRankingLoss(model, correction, **settings)
        cached.mini_batch_size = 5
        for number in range(3):
            features = tokens(model, [column[8 * number :] for column in columns_of(8 * number + 8, 3)])
            torch.testing.assert_close(step(cached, features), step(once, features), rtol=1e-9, atol=1e-12)
            assert once.last is not None
            assert once.last.floored < 1
        assert str(once.end_epoch()) == str(cached.end_epoch())
        states = [dict(loss.loss.named_buffers()) for loss in (once, cached)]
        torch.testing.assert_close(*states)

    def test_draws_the_same_random_numbers_twice(self, tmp_path: Path) -> None:
        """With dropout the gradients are those of the embeddings that the loss has seen."""
        model = small_model(tmp_path, dropout=0.3).train()
        columns = columns_of(8, 3)
        loss = CachedRankingLoss(model, PUCL(alpha=0.05, c=0.0), mini_batch_size=4)
        torch.manual_seed(3)
        value, found = step(loss, tokens(model, columns))
        torch.manual_seed(3)
        model.zero_grad()
        embedded = [
            torch.cat([model(tokens(model, [part])[0])["sentence_embedding"] for part in (column[:4], column[4:])])
            for column in columns
        ]
        expected = RankingLoss(model, PUCL(alpha=0.05, c=0.0)).compute_loss_from_embeddings(embedded)
        expected.backward()
        torch.testing.assert_close(value, expected.detach())
        torch.testing.assert_close(found, gradients(model))
        torch.manual_seed(4)
        assert not torch.allclose(step(loss, tokens(model, columns))[0], value), "dropout draws"

    def test_does_not_learn_in_evaluation(self, model: Any) -> None:
        loss = CachedRankingLoss(model, "ratio", mini_batch_size=4)
        with torch.no_grad():
            value = loss(tokens(model, columns_of(8)))
        assert not value.requires_grad
        assert float(loss.loss.get_buffer("learnt.counted")[0]) == 0


def loop(
    embeddings: list[torch.Tensor],
    correction: Correction,
    positives: Callable[[int, int], bool],
    left_out: Callable[[int, int], bool],
    *,
    back: bool = False,
    floor: float = 0.1,
) -> float:
    """The loss typed from the formula: for each anchor its own positive, other positives, and what is not left out.

    Args:
        embeddings: Of queries, documents and hard negatives.
        correction: One with a number of odds and uniform weights.
        positives: Whether a candidate is another positive of an anchor, by their numbers.
        left_out: Whether a candidate that is no positive is left out.
        back: Documents search for queries.
        floor: Share of the unlabelled mean.
    """
    one, other = (embeddings[1], embeddings[:1]) if back else (embeddings[0], embeddings[1:])
    candidates = torch.cat(other).tolist()
    total, odds = 0.0, float(correction.odds)
    for anchor, vector in enumerate(one.tolist()):
        logits = [20 * oracles.cosine(vector, candidate) for candidate in candidates]
        good = [anchor] + [k for k in range(len(candidates)) if k != anchor and positives(anchor, k)]
        rest = [logits[k] for k in range(len(candidates)) if k not in good and not left_out(anchor, k)]
        mean = sum(map(math.exp, rest)) / len(rest)
        value, _ = oracles.infonce(
            [logits[k] for k in good], rest, oracles.uniform(rest), odds, floor * mean, len(rest)
        )
        total += value
    return total / len(one)


def nothing(*_: int) -> bool:
    return False


class TestKnownRows:
    @pytest.mark.parametrize("correction", [None, Debiased(tau_plus=0.02)], ids=["plain", "deb"])
    @pytest.mark.parametrize("streaming", [False, True])
    def test_labels_are_groups(self, model: Any, correction: Correction | None, streaming: bool) -> None:
        labels = torch.tensor([4, -1, 2, 4, 2, -1, 2])
        columns = columns_of(7, 3)
        embedded = [model(each)["sentence_embedding"].detach() for each in tokens(model, columns)]
        loss = RankingLoss(model, correction, groups=("labels",), directions=BOTH, streaming=streaming)

        def mates(anchor: int, candidate: int) -> bool:
            return candidate < 7 and bool(labels[anchor] == labels[candidate] != -1)

        used = correction or CORRECTIONS["plain"]()
        expected = [loop(embedded, used, mates, nothing, back=back) for back in (False, True)]
        value, found = step(loss, tokens(model, columns), labels)
        assert value.item() == pytest.approx(sum(expected) / 2, rel=1e-6)
        assert found.abs().max() > 0
        apart = RankingLoss(model, correction, groups=("labels",), attract=False, streaming=streaming)
        expected_apart = loop(embedded, used, nothing, mates)
        assert step(apart, tokens(model, columns), labels)[0].item() == pytest.approx(expected_apart, rel=1e-6)

    def test_rows_that_share_a_text(self, model: Any) -> None:
        """A query with two documents, a document of two queries, and hard negatives that are known texts."""
        queries = ["buy lamp", "buy lamp", "see boat", "find boat", "want tree"]
        documents = ["the lamp", "one lamp", "the boat", "the boat", "any tree"]
        negatives = ["the song", "the lamp", "some coat", "the tree", "want tree"]
        columns = [queries, documents, negatives]
        embedded = [model(each)["sentence_embedding"].detach() for each in tokens(model, columns)]
        candidates = documents + negatives
        groups = (
            {"buy lamp", "the lamp", "one lamp"},
            {"see boat", "find boat", "the boat"},
            {"want tree", "any tree"},
        )

        def together(anchor: int, candidate: int) -> bool:
            return any(queries[anchor] in group and candidates[candidate] in group for group in groups)

        def own(anchor: int, candidate: int) -> bool:
            return candidates[candidate] in (queries[anchor], documents[anchor])

        def mates(anchor: int, candidate: int) -> bool:
            return together(anchor, candidate) and not own(anchor, candidate)

        value = step(RankingLoss(model, None), tokens(model, columns))[0].item()
        assert value == pytest.approx(loop(embedded, CORRECTIONS["plain"](), mates, own), rel=1e-6)
        assert mates(0, 1), "the other document of the same query is a positive"
        assert own(2, 3), "the same document is no second positive"
        assert mates(0, 6) is False
        assert own(4, 9), "a query is not compared with itself"
        apart = step(RankingLoss(model, None, attract=False), tokens(model, columns))[0].item()
        assert apart == pytest.approx(loop(embedded, CORRECTIONS["plain"](), nothing, together), rel=1e-6)
        ignored = step(RankingLoss(model, None, groups=()), tokens(model, columns))
        theirs = step(library.MultipleNegativesRankingLoss(model), tokens(model, columns))
        torch.testing.assert_close(ignored, theirs, rtol=1e-6, atol=1e-9)
        assert len({round(each, 6) for each in (value, apart, ignored[0].item())}) == 3

    def test_texts_and_labels_join_rows_together(self) -> None:
        """Rows 0 and 1 share a text, 1 and 2 a label."""
        texts = torch.tensor([[10, 1], [10, 2], [30, 3], [40, 4]])
        known = know_rows(4, 2, texts, torch.tensor([-1, 5, 5, -1]))
        assert known.query_to_doc.groups is not None
        groups = known.query_to_doc.groups.tolist()
        assert groups[0] == groups[1] == groups[2] != groups[3]

    def test_without_equal_texts_documents_are_numbered_by_row(self) -> None:
        known = know_rows(3, 3, torch.tensor([[9, 5, 70], [8, 4, 60], [7, 3, 50]]), None).query_to_doc
        assert known.keys.tolist() == [0, 1, 2, 6, 7, 8]
        assert known.positives.tolist() == [0, 1, 2]
        assert known.mask() is None

    def test_texts_are_known_by_their_tokens(self, model: Any) -> None:
        columns = [["buy lamp", "find boat n1 n2"], ["find boat n1 n2", "buy lamp"]]
        numbers = text_numbers(tokens(model, columns))
        assert numbers[0, 0] == numbers[1, 1] != numbers[0, 1] == numbers[1, 0]
        packed = {"input_ids": torch.tensor([[5, 6, 7, 5, 6]]), "cu_seq_lens_q": torch.tensor([0, 2, 3, 5])}
        rows = text_numbers([packed, packed])[:, 0]
        assert rows[0] == rows[2] != rows[1]
        bags = {"input_ids": torch.tensor([5, 6, 7, 5, 6]), "offsets": torch.tensor([0, 2, 3])}
        assert torch.equal(text_numbers([bags, bags])[:, 0], rows)

    def test_the_last_small_batch_is_skipped_with_a_warning(self, model: Any) -> None:
        loss = RankingLoss(model, Ring(lower=0.0, upper=0.5), directions=BOTH)
        step(loss, tokens(model, columns_of(6, 2)))
        with pytest.warns(UserWarning, match="dataloader_drop_last=True"):
            value, found = step(loss, tokens(model, columns_of(1, 2)))
        assert value == 0
        assert (found == 0).all()


class TestSamples:
    def test_rows_are_numbered_as_they_come(self, model: Any) -> None:
        loss = RankingLoss(model, "glofnd", samples=9)
        assert loss.numbering is not None
        features = tokens(model, columns_of(6))
        step(loss, features)
        assert int(loss.numbering.count) == 6
        step(loss, features)
        assert int(loss.numbering.count) == 6
        again = RankingLoss(model, "glofnd", samples=9)
        again.load_state_dict(loss.state_dict())
        step(again, features)
        torch.testing.assert_close(step(again, features), step(again, features))
        with pytest.raises(ValueError, match="pass samples=len"):
            step(again, tokens(model, [column[6:] for column in columns_of(12)]))

    def test_rows_of_an_evaluation_are_compared_without_correction(self, model: Any) -> None:
        loss = RankingLoss(model, GloFND(dropped=0.3, wait=0), samples=6)
        step(loss, tokens(model, columns_of(6)))
        others = tokens(model, [column[6:] for column in columns_of(12)])
        with torch.no_grad():
            value = loss([dict(each) for each in others])
            torch.testing.assert_close(value, RankingLoss(model, None)([dict(each) for each in others]))


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scale": 0}, "scale is 1 / temperature.*expected 0 < scale.*got 0"),
        ({"scale": -20.0}, "got -20.0"),
        ({"scale": "20"}, "got '20'"),
        ({"scale": math.nan}, "got nan"),
        ({"correction": "rato"}, "Did you mean 'ratio'"),
        ({"correction": "glofnd"}, "pass samples="),
        ({"directions": ()}, "expected at least one, got none"),
        ({"directions": ("query_to_query",)}, "expected some of query_to_doc, doc_to_query, each once, got query_to"),
        ({"groups": ("text",)}, "expected some of texts, labels"),
        ({"floor": 2.0}, "floor"),
        ({"samples": 0}, "expected at least 1, got 0"),
    ],
)
def test_refuses_settings(model: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RankingLoss(model, **settings)


@pytest.mark.usefixtures("without_shape_checks")
def test_refuses_what_is_no_model(model: Any) -> None:
    for none in ("all-MiniLM-L6-v2", None, torch.nn.Linear(2, 2)):
        with pytest.raises(TypeError, match="expected a SentenceTransformer, got"):
            RankingLoss(none)
    with pytest.raises(TypeError, match="expected a Correction"):
        RankingLoss(model, correction=0.1)  # type: ignore[arg-type]
    for settings in ({"mini_batch_size": 0}, {"mini_batch_num_tokens": -1}):
        with pytest.raises(ValueError, match="expected at least 1"):
            CachedRankingLoss(model, **settings)  # type: ignore[arg-type]


@pytest.mark.usefixtures("without_shape_checks")
def test_refuses_batches(model: Any) -> None:
    loss, cached = RankingLoss(model), CachedRankingLoss(model)
    for each in (loss, cached):
        with pytest.raises(ValueError, match="expected two columns of texts or more, got 1"):
            each(tokens(model, columns_of(4)[:1]))
        with pytest.raises(ValueError, match="expected columns of one length"):
            each(tokens(model, [["buy lamp", "see boat"], ["the lamp"]]))
        with pytest.raises(ValueError, match="expected at least two rows, got one"):
            each(tokens(model, columns_of(1)))
        with pytest.raises(ValueError, match="got one of 2 rows that are all of one group; shuffle the data"):
            each(tokens(model, [["buy lamp", "buy lamp"], ["the lamp", "one lamp"]]))
    labelled = RankingLoss(model, groups=("labels",))
    with pytest.raises(ValueError, match="expected one in the data, named label"):
        labelled(tokens(model, columns_of(4)))
    with pytest.raises(ValueError, match="expected 4 integers, got torch.float32"):
        labelled(tokens(model, columns_of(4)), torch.zeros(4))
    with pytest.raises(ValueError, match="got one of 4 rows that are all of one group"):
        labelled(tokens(model, columns_of(4)), torch.full((4,), 3))
    with pytest.raises(ValueError, match="expected texts .input_ids., got pixel_values"):
        loss([{"pixel_values": torch.zeros(2, 3)}, {"pixel_values": torch.zeros(2, 3)}])


def test_settings_and_citation_for_the_model_card(model: Any) -> None:
    loss = CachedRankingLoss(model, PUCL(alpha=0.1, c=0.0), 30.0, directions=BOTH, mini_batch_size=8)
    settings = loss.get_config_dict()
    assert settings["correction"] == str(PUCL(alpha=0.1, c=0.0))
    assert (settings["scale"], settings["mini_batch_size"], settings["directions"]) == (30.0, 8, BOTH)
    assert "2401.08690" in loss.citation
    assert loss.temperature == 1 / 30


def test_ratio_learns_at_scale_20(model: Any) -> None:
    """No anchor is floored, whatever ratio believes, and the gradient is not nothing."""
    loss = RankingLoss(model, Ratio(tau_plus=0.2, warm_up=1))
    for _ in range(3):
        value, found = step(loss, tokens(model, columns_of(16)))
    assert isinstance(loss.last, Outcome)
    assert loss.last.floored == 0
    assert loss.last.tau_plus > 0
    assert value > 1e-3
    assert found.abs().max() > 1e-3
