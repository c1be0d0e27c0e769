"""TrainingState and ResumableSampler by themselves; whole programs are in test_examples.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lazily import imported
from tiresias.checkpoint import Store
from tiresias.checkpoint.world import World
from tiresias.errors import UsageError

torch = imported("torch")
adapter = imported("tiresias.checkpoint.adapters.torch", "torch")


@given(
    size=st.integers(0, 60),
    ranks=st.integers(1, 4),
    batch=st.integers(1, 9),
    stop=st.integers(0, 20),
    shuffle=st.booleans(),
)
def test_an_epoch_taken_up_in_its_middle_is_the_same_epoch(
    size: int, ranks: int, batch: int, stop: int, shuffle: bool
) -> None:
    for rank in range(ranks):
        sampler = adapter.ResumableSampler(size, 3, rank, ranks, shuffle)
        whole = list(sampler)
        assert len(whole) == len(sampler) == size // ranks
        done = min(stop * batch, len(whole))
        sampler.taken(done)
        again = adapter.ResumableSampler(size, 0, rank, ranks, shuffle)
        again.load_state_dict(sampler.state_dict())
        assert list(again) == whole[done:]
        assert again.left == len(whole) - done


@given(size=st.integers(0, 60), before=st.integers(1, 4), after=st.integers(1, 4), stop=st.integers(0, 60))
def test_other_ranks_share_what_is_left(size: int, before: int, after: int, stop: int) -> None:
    """No sample is seen twice in an epoch, and none is left out but the last few."""
    old = [adapter.ResumableSampler(size, 3, rank, before) for rank in range(before)]
    done = min(stop, len(old[0]))
    seen = [index for sampler in old for index in list(sampler)[:done]]
    old[0].taken(done)
    for rank in range(after):
        new = adapter.ResumableSampler(size, 3, rank, after)
        new.load_state_dict(old[0].state_dict())
        seen += list(new)
    assert len(seen) == len(set(seen)) > size - max(before, after) - after


def test_epochs_differ_and_the_global_generator_is_not_drawn_from() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    sampler = adapter.ResumableSampler(50)
    first = list(sampler)
    sampler.next_epoch()
    assert sorted(first) == sorted(sampler) == list(range(50))
    assert first != list(sampler)
    assert torch.equal(before, torch.get_rng_state())


def test_a_default_device_of_the_program_changes_no_order() -> None:
    """After torch.set_default_device("cuda") a generator of the CPU fits no new tensor. "meta" stands for a GPU."""
    expected = list(adapter.ResumableSampler(50))
    with torch.device("meta"):
        assert list(adapter.ResumableSampler(50)) == expected


def test_all_generators_come_back() -> None:
    import random

    import numpy as np

    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    saved = adapter.RandomGenerators().state_dict()
    first = draw()
    adapter.RandomGenerators().load_state_dict(saved)
    assert draw() == first != draw()


def state(seed: int) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 + seed)
    return (model, optimizer, scaler), adapter.TrainingState(
        model=model, optimizer=optimizer, scaler=scaler, absent=None
    )


def test_every_part_comes_back_and_may_be_trained_on(tmp_path: Path) -> None:
    (model, optimizer, scaler), first = state(1)
    Store(tmp_path).save(5, first.to_checkpoint())
    (again, other, scale), second = state(2)
    second.load(Store(tmp_path).load(5), World())
    assert all(map(torch.equal, model.parameters(), again.parameters()))
    assert scale.get_scale() == scaler.get_scale() == 3.0
    for one in (optimizer, other):
        one.step()
    assert all(map(torch.equal, model.parameters(), again.parameters()))


def test_ranks_have_generators_of_their_own_and_share_the_rest() -> None:
    _, parts = state(1)
    names = {name.partition("/")[0] for name in parts.to_checkpoint(rank=1)}
    assert names == {"rng"}
    assert {name.partition("/")[0] for name in parts.to_checkpoint()} == {"model", "optimizer", "scaler", "rng"}


def test_another_number_of_ranks_keeps_its_generators(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, first = state(1)
    Store(tmp_path).save(5, first.to_checkpoint())
    _, second = state(2)
    before = torch.get_rng_state()
    second.load(Store(tmp_path).load(5), World(0, 2, "x"))
    assert torch.equal(before, torch.get_rng_state())
    assert "1 ranks saved, 2 resume" in capfd.readouterr().err


def test_a_part_that_was_not_saved_is_named(tmp_path: Path) -> None:
    _, first = state(1)
    Store(tmp_path).save(5, first.to_checkpoint())
    more = adapter.TrainingState(scheduler=torch.nn.Linear(1, 1))
    with pytest.raises(UsageError, match="step-5: holds no 'scheduler'"):
        more.load(Store(tmp_path).load(5), World())
