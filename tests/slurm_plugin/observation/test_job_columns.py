"""Columns of jobs that no built-in stage reads yet: from Slurm, through the journal, to the snapshot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiresias.scheduler.model import Jobs
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.backends.slurm_rules import Partition, SlurmRules
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.state.job_claims import add_claim
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
SCOPE = Scope(frozenset({"gpu"}))


def columns(ledger: Ledger, *jobs: SlurmJob, time: float = 1001) -> Jobs:
    slurm = SlurmSnapshot(time, jobs, ())
    return Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {}).jobs


def values(jobs: Jobs) -> tuple[object, ...]:
    """Of the first job: virtual cluster, priority class, minimum and maximum of GPUs, progress."""
    assert jobs.virtual_cluster is not None
    assert jobs.priority_class is not None
    assert jobs.min_gpus is not None
    assert jobs.max_gpus is not None
    assert jobs.progress is not None
    return (
        jobs.virtual_cluster[0],
        int(jobs.priority_class[0]),
        int(jobs.min_gpus[0]),
        int(jobs.max_gpus[0]),
        float(jobs.progress[0]),
    )


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[Callable[[], Ledger]]:
    """A ledger of a controller that has just started; the one before has ended."""
    journals: list[Journal] = []

    def start() -> Ledger:
        for journal in journals:
            journal.close()
        journals[:] = [Journal(tmp_path / "own")]
        return Ledger(journals[0], SCOPE)

    yield start
    journals[0].close()


def test_a_job_of_which_nothing_is_known_has_neutral_values(ledger: Ledger, pending: Make) -> None:
    *others, progress = values(columns(ledger, pending(gpus=4, priority=1)))
    assert others == ["", 0, 4, 4]
    assert math.isnan(float(str(progress)))


def test_the_journal_has_them_after_a_restart(restarted: Callable[[], Ledger], pending: Make) -> None:
    ledger = restarted()
    columns(ledger, pending(gpus=4, priority=1))
    ledger.note_class(ledger.jobs["1"], 3)
    ledger.note_progress(ledger.jobs["1"], 250)
    ledger.save(ledger.jobs["1"])
    ledger = restarted()
    assert values(columns(ledger, pending(gpus=4, priority=1))) == ("", 3, 4, 4, 250.0)


def test_the_claims_of_a_job_and_the_trust_in_its_owner_survive_a_restart(
    restarted: Callable[[], Ledger], pending: Make, running: Make
) -> None:
    ledger = restarted()
    assert columns(ledger, pending(priority=1)).claimed_remaining is None
    add_claim(ledger.jobs["1"], 100.0, 1000.0)
    ledger.save(ledger.jobs["1"])
    found = columns(restarted(), pending(priority=1))
    assert found.claimed_remaining is not None
    assert found.claim_trust is not None
    assert found.claimed_remaining[0] >= 1000.0
    assert found.claim_trust[0] == 1.0


def test_an_ended_job_that_worked_past_its_claim_costs_its_owner_trust(
    restarted: Callable[[], Ledger], running: Make
) -> None:
    ledger = restarted()
    columns(ledger, running(1000), time=1001)
    row = ledger.jobs["1"]
    add_claim(row, 0.0, 100.0)
    ledger.apply(SlurmSnapshot(9000, (), ()))
    trust = ledger.trust_in(row.uid)
    assert trust.weight < 1.0
    assert trust.stretch > 1.0
    assert restarted().trust_in(row.uid) == trust


def test_what_is_not_known_now_leaves_what_is_stored(ledger: Ledger, pending: Make) -> None:
    columns(ledger, pending(priority=1))
    row = ledger.jobs["1"]
    ledger.note_class(row, 3)
    ledger.note_class(row, 0)
    ledger.note_progress(row, 7)
    ledger.note_progress(row, -1)
    assert (row.priority_class, row.progress) == (3, 7.0)


def test_gpus_are_those_of_the_request(ledger: Ledger, pending: Make, running: Make) -> None:
    """The owner changes the request while the job waits; a run holds more than that where it gets whole nodes."""
    assert values(columns(ledger, pending(gpus=4, priority=1)))[2:4] == (4, 4)
    assert values(columns(ledger, pending(gpus=2, priority=1), time=1002))[2:4] == (2, 2)
    assert values(columns(ledger, running(1003, gpus=8), time=1004))[2:4] == (2, 2)


def test_a_row_of_an_earlier_version_gets_them_from_the_run(ledger: Ledger, running: Make) -> None:
    columns(ledger, running(1000, gpus=4))
    ledger.jobs["1"].min_gpus = ledger.jobs["1"].max_gpus = 0
    assert values(columns(ledger, running(1000, gpus=4), time=1002))[2:4] == (4, 4)
    assert ledger.jobs["1"].min_gpus == 4


@pytest.mark.parametrize(("partition", "tier"), [("gpu", 2), ("gpu,night", 5), ("other", 0), ("other,gpu", 2)])
def test_the_priority_class_is_the_highest_tier_of_the_partitions(partition: str, tier: int) -> None:
    known = {"gpu": Partition("gpu", priority_tier=2), "night": Partition("night", priority_tier=5)}
    assert SlurmRules(partitions=known).priority_tier(partition) == tier
