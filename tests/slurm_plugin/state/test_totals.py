"""Sums for metrics: they never fall, and count what happened since the controller leads, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger
from tiresias.slurm_plugin.state.totals import COUNTED, Place, Totals, by_partition
from tiresias.slurm_plugin.state.usage import Usage

Make = Callable[..., SlurmJob]
GPU = Place("gpu", "bio")
NUMBERS = st.integers(0, 1000).map(float)
USAGES = st.builds(
    Usage,
    runs=st.integers(0, 3),
    preemptions=st.integers(0, 3),
    queued=NUMBERS,
    parked=NUMBERS,
    saving=NUMBERS,
    restoring=NUMBERS,
    redone=NUMBERS,
)


def sums(totals: Totals) -> dict[str, float]:
    (row,) = by_partition(totals.published())
    return {name: row[name] for name in COUNTED}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([GPU, Place("gpu", "chem")]), USAGES), min_size=1))
def test_sums_never_fall_and_reach_the_highest(steps: list[tuple[str, Place, Usage]]) -> None:
    totals, before = Totals(), dict.fromkeys(COUNTED, 0.0)
    for key, place, had in steps:
        totals.count(key, place, had)
        now = sums(totals)
        assert all(now[name] >= before[name] for name in COUNTED)
        before = now
    for name in ("saving", "restoring", "redone"):
        highest = [max((getattr(had, name) for one, _, had in steps if one == key), default=0.0) for key in "ab"]
        assert before[name] == sum(highest)


def test_a_job_that_never_ran_has_no_wait_yet() -> None:
    totals = Totals()
    totals.count("a", GPU, Usage(queued=50.0))
    totals.count("a", GPU, Usage(runs=1, queued=60.0))
    assert (sums(totals)["waited"], sums(totals)["runs"]) == (60.0, 1.0)


@pytest.fixture
def preempted(ledger: Ledger, pending: Make, running: Make) -> SlurmJob:
    """A job of 4 GPUs that waited 5 s, was preempted in 3 s, waited 100 s more, and needed 10 s to its first step."""
    see(ledger, 1001, pending(account="bio"))
    see(ledger, 1010, running(1005, account="bio"))
    ledger.usage.note(ledger.jobs["1"], 0, pause=3.0)
    see(ledger, 1100, pending(restarts=1, submit_time=1105, account="bio"))
    back = running(1205, restarts=1, submit_time=1105, account="bio")
    see(ledger, 1300, back)
    ledger.usage.note(ledger.jobs["1"], 1, restore=10.0)
    ledger.usage.note(ledger.jobs["1"], 1, redone=5, pace=2.0)
    return back


def see(ledger: Ledger, time: float, *jobs: SlurmJob) -> None:
    ledger.apply(SlurmSnapshot(time, jobs, ()))


def test_the_ledger_counts_a_preemption(ledger: Ledger, preempted: SlurmJob) -> None:
    (row,) = ledger.usage.totals.published()
    expected = {"runs": 2, "preemptions": 1, "waited": 105, "saving": 12, "restoring": 40, "redone": 40}
    assert row == {"partition": "gpu", "account": "bio", **expected}


def test_another_life_counts_what_is_new_alone(ledger: Ledger, journal: Journal, preempted: SlurmJob) -> None:
    later = Ledger(journal, Scope(frozenset({"gpu"})))
    see(later, 1310, preempted)
    later.usage.note(later.jobs["1"], 1, restore=10.0, redone=5, pace=2.0)
    assert later.usage.totals.published() == []
    later.usage.note(later.jobs["1"], 1, redone=7)
    assert sums(later.usage.totals) == dict.fromkeys(COUNTED, 0.0) | {"redone": 16.0}
