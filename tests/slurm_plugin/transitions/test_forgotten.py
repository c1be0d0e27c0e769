"""Holds and pins that slurmctld restores from an older saved state."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import NO_ROWS, ActorHarness
from tiresias.scheduler.model import Plan, Start


@pytest.mark.parametrize(
    ("boot", "pin", "own"), [(1100.0, "gpu02", True), (1099.0, "gpu02", False), (2000.0, "gpu07", False)]
)
def test_a_hold_is_the_controllers_if_slurmctld_was_restarted_and_shows_its_pin(
    held_job: ActorHarness, boot: float, pin: str, own: bool
) -> None:
    """slurmctld was killed between the two calls of a start; otherwise the hold is an administrator's."""
    held_job.slurm.starts = False
    held_job.start()
    held_job.actor.advance(1100.5)
    held_job.slurm.change(priority=0, reason="JobHeldAdmin", required_nodes=(pin,))
    held_job.slurm.boot = boot
    held_job.refresh()
    held_job.actor.confirm(1101.0)
    assert held_job.row.held == own
    held_job.actor.advance(1140.0)
    assert held_job.news()[-1].startswith(
        "not started: Slurm reports" if own else "not started: its owner, an administrator or a dependency holds it"
    )
    assert held_job.actor.release_all(1141.0) == []
    assert (held_job.job.priority > 0) == own


@pytest.mark.parametrize(("boot", "restarts", "own"), [(1100.0, 0, True), (1099.0, 0, False), (2000.0, 1, False)])
def test_a_hold_is_the_controllers_if_slurmctld_lost_the_whole_start(
    held_job: ActorHarness, boot: float, restarts: int, own: bool
) -> None:
    """The job ran and was unpinned, and slurmctld restored its state from before; not if that state contains the run."""
    held_job.slurm.starts = False
    held_job.start()
    held_job.actor.advance(1100.5)
    held_job.row.pinned = False
    held_job.slurm.change(priority=0, reason="JobHeldAdmin", required_nodes=(), restarts=restarts)
    held_job.slurm.boot = boot
    held_job.refresh()
    held_job.actor.confirm(1101.0)
    assert held_job.row.held == own


@pytest.mark.parametrize(("submitted", "own"), [(1050, True), (1103, False)])
def test_a_hold_is_the_controllers_if_slurmctld_lost_even_the_end_of_the_run(
    held_job: ActorHarness, submitted: int, own: bool
) -> None:
    """The job had ended; the restored record looks like a new job, and may be one that reuses the id."""
    held_job.start()
    held_job.actor.advance(1100.5)
    held_job.poll(1101)
    held_job.slurm.change(state="COMPLETED", end_time=1502)
    held_job.poll(1102)
    held_job.slurm.change(state="PENDING", submit_time=submitted, start_time=0, end_time=0, shares=())
    held_job.slurm.change(priority=0, reason="JobHeldAdmin", required_nodes=())
    held_job.slurm.boot = 1103.0
    held_job.refresh()
    held_job.actor.confirm(1104.0)
    assert held_job.row.held == own


@pytest.mark.parametrize(("boot", "restarts", "own"), [(1200.0, 1, True), (1099.0, 1, False), (1200.0, 2, False)])
def test_a_hold_is_the_controllers_if_slurmctld_lost_the_end_of_a_failed_preemption(
    running_job: ActorHarness, boot: float, restarts: int, own: bool
) -> None:
    """Its preemption failed; then its node failed, and Slurm requeued it."""
    running_job.preempt()
    for now in (1100.5, 1500.0, 1501.0):
        running_job.poll(now)
    assert not running_job.actor.intents
    assert not running_job.row.held
    running_job.slurm.requeue_record("1")
    running_job.slurm.change(priority=0, reason="JobHeldAdmin", restarts=restarts)
    running_job.slurm.boot = boot
    running_job.refresh()
    running_job.actor.confirm(1502.0)
    assert running_job.row.held == own


def test_a_hold_is_the_controllers_if_slurmctld_shows_an_earlier_pin(held_job: ActorHarness) -> None:
    held_job.slurm.starts = False
    held_job.start()
    for now in (1100.5, 1140.0):  # not started, held again
        held_job.poll(now)
    assert held_job.row.held
    held_job.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(Start("1", (("gpu03", 4),)),)), 1200.0)
    held_job.poll(1200.5)
    held_job.slurm.change(priority=0, reason="JobHeldAdmin", required_nodes=("gpu02",))
    held_job.slurm.boot = 1201.0
    held_job.refresh()
    held_job.actor.confirm(1202.0)
    assert held_job.row.held


@pytest.mark.parametrize(("boot", "own"), [(1100.0, True), (1099.0, False)])
def test_a_pin_is_the_controllers_if_slurmctld_lost_its_removal(held_job: ActorHarness, boot: float, own: bool) -> None:
    """Otherwise its owner requests the nodes of its last run."""
    min_nodes = held_job.row.min_nodes
    held_job.start()
    held_job.actor.advance(1100.5)
    held_job.poll(1101)
    held_job.slurm.requeue_record("1")
    held_job.slurm.change(priority=0, reason="JobHeldAdmin", required_nodes=("gpu02",), min_nodes=7)
    held_job.row.held, held_job.row.pinned = True, False
    held_job.slurm.boot = boot
    held_job.refresh()
    held_job.actor.confirm(1102.0)
    assert (held_job.row.pinned, held_job.row.min_nodes, held_job.row.required) == (
        (True, min_nodes, "") if own else (False, 7, "gpu02")
    )
    held_job.actor.unpin(held_job.refresh(), 1103.0)
    assert held_job.job.required_nodes == (() if own else ("gpu02",))
