"""Queue and bank."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pucl.memory import Bank, Queue


@settings(deadline=None, max_examples=60)
@given(size=st.integers(1, 9), batches=st.lists(st.integers(0, 12), min_size=1, max_size=8))
def test_a_queue_holds_the_most_recent(size: int, batches: list[int]) -> None:
    queue = Queue(size)
    all_ids: list[int] = []
    for batch in batches:
        ids = torch.arange(len(all_ids), len(all_ids) + batch)
        queue.push(ids[:, None].double().repeat(1, 2), ids, ids // 3)
        all_ids.extend(ids.tolist())
    keys, ids, groups = queue.contents()
    assert sorted(ids.tolist()) == all_ids[-size:]
    assert torch.equal(keys[:, 0], ids.double())
    assert torch.equal(groups, ids // 3)
    assert queue.position == len(all_ids) % size


def test_a_queue_overwrites_the_oldest_place_by_place() -> None:
    queue = Queue(5, dim=1)
    queue.push(torch.tensor([[0.0], [1.0], [2.0]]))
    queue.push(torch.tensor([[3.0], [4.0], [5.0]]))
    assert queue.keys[:, 0].tolist() == [5, 1, 2, 3, 4]
    queue.push(torch.tensor([[6.0]]))
    assert queue.keys[:, 0].tolist() == [5, 6, 2, 3, 4]


def test_a_queue_of_unknown_dimension_takes_a_saved_one() -> None:
    saved = Queue(4, dim=3)
    saved.push(torch.randn(6, 3), torch.arange(6))
    queue = Queue(4)
    queue.load_state_dict(saved.state_dict())
    for name, value in saved.state_dict().items():
        assert torch.equal(queue.state_dict()[name], value)
    assert len(queue.contents()[0]) == 4


def test_a_queue_that_was_saved_without_groups_has_none() -> None:
    saved = Queue(4, dim=3)
    saved.push(torch.randn(6, 3), torch.arange(6), torch.arange(6))
    old = {name: value for name, value in saved.state_dict().items() if name != "groups"}
    queue = Queue(4, dim=3)
    queue.load_state_dict(old)
    assert queue.contents().groups.tolist() == [-1] * 4
    assert torch.equal(queue.contents().ids, saved.contents().ids)
    assert "groups" not in old


def test_a_queue_of_unknown_dimension_goes_back_to_its_first_state() -> None:
    queue = Queue(4)
    fresh = {name: value.clone() for name, value in queue.state_dict().items()}
    queue.push(torch.randn(3, 2))
    queue.load_state_dict(fresh)
    assert len(queue.contents()[0]) == 0
    queue.push(torch.randn(3, 5))  # Whose dimension is unknown again.
    assert queue.contents()[0].shape == (3, 5)


def test_a_queue_of_another_size_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"expected the shape \[4, dim\], got \(5, 3\)"):
        Queue(4, dim=3).load_state_dict(Queue(5, dim=3).state_dict())


@pytest.mark.parametrize(
    ("name", "wrong", "allowed"),
    [
        ("filled", torch.tensor(-5), "0 to 4, got -5"),
        ("filled", torch.tensor(10**6), "0 to 4, got 1000000"),
        ("filled", torch.tensor(2.5), "0 to 4, got 2.5"),
        ("position", torch.tensor(-1), "0 to 3, got -1"),
        ("position", torch.tensor(4), "0 to 3, got 4"),
        ("keys", torch.zeros(4), r"the shape \[4, dim\], got \(4,\)"),
    ],
)
def test_a_state_that_no_queue_can_have_is_refused(name: str, wrong: torch.Tensor, allowed: str) -> None:
    queue = Queue(4, dim=3)
    queue.push(torch.randn(2, 3))
    before = {key: value.clone() for key, value in queue.state_dict().items()}
    with pytest.raises(RuntimeError, match=f"{name} of the saved queue.*expected .*{allowed}"):
        queue.load_state_dict({**Queue(4, dim=3).state_dict(), name: wrong})
    assert all(torch.equal(value, before[key]) for key, value in queue.state_dict().items())


def test_wrong_keys_are_refused(without_shape_checks: None) -> None:
    queue = Queue(4, dim=3)
    with pytest.raises(ValueError, match=r"expected the shape \[batch, dim\], got \(3,\)"):
        queue.push(torch.randn(3))
    with pytest.raises(ValueError, match="a queue of dimension 3: expected the same, got 2"):
        queue.push(torch.randn(2, 2))
    with pytest.raises(ValueError, match=r"groups name the known group of each key: expected 2 integers, got .*\[3\]"):
        queue.push(torch.randn(2, 3), None, torch.arange(3))
    for size in (0, 3.5, True, "4"):
        with pytest.raises(ValueError, match="how many embeddings the queue holds: expected an integer of at least 1"):
            Queue(size)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dim is the dimension of the embeddings: expected an integer of at least 1"):
        Queue(4, dim=2.0)  # type: ignore[arg-type]


def test_a_bank_moves_only_what_it_is_told_and_stays_on_the_sphere() -> None:
    bank = Bank(6, 4, momentum=0.25)
    before, ids, new = bank.entries.clone(), torch.tensor([1, 4]), torch.randn(2, 4)
    bank.update(ids, new)
    unit = torch.nn.functional.normalize(new, dim=1)
    expected = torch.nn.functional.normalize(0.25 * before[ids] + 0.75 * unit, dim=1)
    torch.testing.assert_close(bank.entries[ids], expected)
    rest = torch.tensor([0, 2, 3, 5])
    assert torch.equal(bank.entries[rest], before[rest])
    torch.testing.assert_close(bank.entries.norm(dim=1), torch.ones(6))


def test_a_step_that_went_wrong_does_not_spoil_a_bank() -> None:
    bank = Bank(5, 3)
    before = bank.entries.clone()
    bank.update(torch.tensor([1, 2], dtype=torch.int32), torch.tensor([[math.nan, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    assert torch.equal(bank.entries[1], before[1])
    assert not torch.equal(bank.entries[2], before[2])


def test_wrong_banks_are_refused() -> None:
    with pytest.raises(ValueError, match="expected an integer of at least 2, got 1"):
        Bank(1, 3)
    with pytest.raises(ValueError, match="momentum is the share of the old entry"):
        Bank(4, 3, momentum=1.0)
