"""The training state: every iteration counts, and a checkpoint gives back exactly what was saved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.sandbox.trainer_state import DamagedState, TrainerState


def trained(steps: int, job: str = "7") -> TrainerState:
    state = TrainerState.fresh(job)
    state.advance(steps)
    return state


@given(st.lists(st.integers(0, 500), max_size=6))
def test_pieces_are_the_whole(pieces: list[int]) -> None:
    state = TrainerState.fresh("7")
    for until in sorted(pieces):
        state.advance(until)
        state = TrainerState.restored(state.to_checkpoint(100), "7")
    assert state.numbers == trained(max(pieces, default=0)).numbers


def test_a_lost_or_repeated_iteration_shows() -> None:
    curves = {trained(steps).curve for steps in range(200)}
    assert len(curves) == 200
    repeated = trained(100)
    repeated.step -= 1  # one iteration is done twice
    repeated.advance(100)
    assert repeated.curve != trained(100).curve


def test_it_learns() -> None:
    assert trained(2000).loss < 0.1 * TrainerState.fresh("7").loss


def test_jobs_differ() -> None:
    assert trained(100, "7").curve != trained(100, "8").curve


def test_payload_has_the_size_asked_for() -> None:
    assert len(trained(10).to_checkpoint(100_000)["payload"]) == 100_000


def test_mixed_moments_are_noticed() -> None:
    mixed = trained(10).to_checkpoint(64) | {"payload": trained(11).to_checkpoint(64)["payload"]}
    with pytest.raises(DamagedState, match="payload"):
        TrainerState.restored(mixed, "7")


def test_another_jobs_checkpoint_is_refused() -> None:
    with pytest.raises(DamagedState, match="job 8's"):
        TrainerState.restored(trained(10, "8").to_checkpoint(64), "7")
