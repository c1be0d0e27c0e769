"""The cells of a virtual cluster go from the plan through the journal to the run, also when the controller is killed meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.slurm_plugin.transitions.actor_harness import NO_ROWS, NODES, ActorHarness
from tiresias.scheduler.model import Plan, Preempt, Start
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob
from tiresias.slurm_plugin.observation.held_cells import cells_of
from tiresias.slurm_plugin.state.intents import Intent

Make = Callable[..., SlurmJob]
START = Start("1", NODES, ("node",))
IN_CELLS = {"gpu02": "node"}


def start_in_cells(harness: ActorHarness, start: Start = START) -> None:
    harness.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(start,)), 1100.0)


def held(harness: ActorHarness, job: str = "1") -> dict[str, str]:
    """Return the cells that the next snapshot shows of a job."""
    intents: dict[str, Intent] = dict(harness.actor.intents)
    return dict(cells_of([harness.slurm.jobs[job]], intents, harness.ledger)[0])


def stored(harness: ActorHarness) -> list[str]:
    """Return the cells of all runs, as the journal has them."""
    return [run.cells for run in harness.journal.live_runs()]


@pytest.mark.parametrize("killed", [False, True])
def test_a_start_in_cells_becomes_a_run_in_cells(held_job: ActorHarness, killed: bool) -> None:
    start_in_cells(held_job)
    assert held(held_job) == IN_CELLS, "they are promised to it"
    if killed:
        held_job.restart_controller()
    held_job.poll(1101.0)
    assert held(held_job) == IN_CELLS, "it runs, and the start is not confirmed yet"
    if killed:
        held_job.restart_controller()
    held_job.refresh()
    held_job.actor.confirm(1102.0)
    assert (held_job.intents(), stored(held_job), held(held_job)) == ([], ["gpu02=node"], IN_CELLS)
    held_job.restart_controller()
    assert held(held_job) == IN_CELLS


def test_a_job_that_moved_since_the_decision_does_not_start_in_the_cells(held_job: ActorHarness) -> None:
    """Its new account may be that of another virtual cluster."""
    start_in_cells(held_job)
    held_job.slurm.change(account="robots")
    held_job.actor.advance(1101.0)
    assert (held_job.intents(), held_job.row.held, held_job.row.pinned) == ([], True, False)
    assert (held_job.job.state, held_job.job.priority) == ("PENDING", 0)
    assert held_job.news()[-1].startswith("not started: it was moved from account ")
    held_job.refresh()
    start_in_cells(held_job)
    held_job.actor.advance(1102.0)
    assert held_job.job.state == "RUNNING", "a decision on its new account starts it"


def test_a_start_without_cells_is_opportunistic(held_job: ActorHarness) -> None:
    start_in_cells(held_job, Start("1", NODES))
    held_job.poll(1101.0)
    held_job.refresh()
    held_job.actor.confirm(1102.0)
    assert (stored(held_job), held(held_job)) == ([""], {})


def test_a_job_that_slurm_started_on_other_nodes_holds_no_cells_there(held_job: ActorHarness) -> None:
    start_in_cells(held_job, Start("1", (("gpu07", 4),), ("node",)))
    held_job.poll(1101.0)
    assert "gpu02" not in held(held_job)
    held_job.slurm.change(shares=(NodeShare("gpu03", 4, 4, 400),))
    held_job.refresh()
    held_job.actor.confirm(1102.0)
    assert (stored(held_job), held(held_job)) == ([""], {})


def test_the_beneficiary_of_a_preemption_gets_the_cells_of_its_reservation(running_job: ActorHarness) -> None:
    actions, reserved = (Preempt("1", "2"),), (Start("2", (("gpu01", 4),), ("leaf",)),)
    running_job.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=actions, reserved=reserved), 1100.0)
    assert [one.cells for one in running_job.intents()] == ["gpu01=leaf"]
    running_job.restart_controller()
    running_job.poll(1101.0)
    running_job.report_parked()
    running_job.poll(1102.0)
    start = next(one for one in running_job.journal.open_intents() if one.id == "2")
    assert (start.kind, start.cells) == ("start", "gpu01=leaf")


def test_a_rebinding_is_journaled(running_job: ActorHarness) -> None:
    running_job.actor.rebind({"1": "gpu01=node"})
    assert (stored(running_job), held(running_job)) == (["gpu01=node"], {"gpu01": "node"})
    running_job.actor.rebind({"1": ""})
    assert (stored(running_job), held(running_job)) == ([""], {})


def test_a_rebinding_reaches_a_start_under_way(held_job: ActorHarness) -> None:
    start_in_cells(held_job)
    held_job.actor.rebind({"1": ""})
    assert held(held_job) == {}
    held_job.poll(1101.0)
    held_job.refresh()
    held_job.actor.confirm(1102.0)
    assert stored(held_job) == [""]


def test_the_next_run_of_a_job_begins_without_cells(running_job: ActorHarness) -> None:
    running_job.actor.rebind({"1": "gpu01=node"})
    running_job.slurm.requeue_record("1")
    running_job.refresh()
    assert held(running_job) == {}
