"""Holds and pins that slurmctld restores from an older saved state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.slurm_plugin.transitions.actor_harness import NO_ROWS, NODES, ActorHarness
from tiresias.scheduler.model import Plan, Start
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode, StatedGpus
from tiresias.slurm_plugin.state.intents import IntentStep
from tiresias.slurm_plugin.state.journal import Journal

Make = Callable[..., SlurmJob]
Nodes = tuple[tuple[str, int], ...]
OTHERS = (("gpu03", 4),)


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


def fail_start(job: ActorHarness, nodes: Nodes, now: float, parts: tuple[tuple[int, ...], ...] = ()) -> None:
    """Start a job that Slurm does not start: it is held again, and its pin is removed."""
    job.slurm.starts = False
    job.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(Start("1", nodes, parts=parts),)), now)
    for later in (0.5, 40.0):
        job.poll(now + later)
    job.actor.unpin(job.refresh(), now + 41.0)
    assert not job.row.pinned


@pytest.mark.parametrize(
    ("boot", "seen", "own"),
    [
        (1250.0, 1342.0, True),
        (1150.0, 1342.0, True),
        (1099.0, 1342.0, False),
        (1300.0, 1361.0, False),
        (1300.0, 1360.0, True),
    ],
)
def test_a_pin_of_an_earlier_start_is_the_controllers_if_slurmctld_lost_its_removal(
    held_job: ActorHarness, boot: float, seen: float, own: bool
) -> None:
    """Two starts since slurmctld saved its state. In the last two cases it was killed long after the second one: it may have
    forgotten that one before."""
    max_nodes = held_job.row.max_nodes
    fail_start(held_job, NODES, 1100.0)
    fail_start(held_job, OTHERS, 1200.0)
    held_job.slurm.change(required_nodes=("gpu02",), max_nodes=1)
    held_job.slurm.boot = boot
    held_job.actor.see(held_job.refresh(), seen)
    held_job.actor.confirm(seen)
    assert (held_job.row.pinned, held_job.row.required, held_job.row.max_nodes) == (
        (True, "", max_nodes) if own else (False, "gpu02", 1)
    )


def test_a_forgotten_pin_may_select_parts_where_the_newest_one_does_not(held_job: ActorHarness) -> None:
    """Both the nodes and the types are removed."""
    own = (StatedGpus("job", 4),)
    held_job.slurm.change(stated_gpus=own)
    held_job.refresh()
    fail_start(held_job, NODES, 1100.0, parts=((0, 4),))
    fail_start(held_job, OTHERS, 1200.0)
    assert held_job.row.pin == "number"
    held_job.slurm.change(
        required_nodes=("gpu02",), max_nodes=1, stated_gpus=(StatedGpus("job", 4, "s1"),), gpu_type="s1"
    )
    held_job.slurm.boot = 1250.0
    held_job.refresh()
    held_job.actor.confirm(1342.0)
    assert held_job.row.pin == "number typed"
    held_job.actor.unpin(held_job.refresh(), 1343.0)
    assert (held_job.job.required_nodes, held_job.job.stated_gpus, held_job.job.gpu_type) == ((), own, "")


def idle_node(name: str) -> SlurmNode:
    return SlurmNode(
        name=name, state="IDLE", flags=frozenset(), reason="", gpus=4, gpus_allocated=0, gpu_type="", cpus=16,
        cpus_allocated=0, memory=64000, memory_allocated=0, features=(), partitions=("gpu",),
    )  # fmt: skip


def start_only_then_by_number(job: ActorHarness) -> None:
    """Start the job twice on a cluster of four nodes, first on gpu02 by a pin that excludes the other ones."""
    job.slurm.nodes = tuple(map(idle_node, ("gpu01", "gpu02", "gpu03", "gpu04")))
    job.slurm.boot = 1050.0
    job.slurm.change(max_nodes=0, submit_time=1000)
    job.refresh()
    fail_start(job, NODES, 1100.0)
    assert job.row.pin == "only"
    job.slurm.change(max_nodes=1)
    job.refresh()
    fail_start(job, OTHERS, 1200.0)
    assert job.row.pin == "number"


@pytest.mark.parametrize(
    ("boot", "excluded", "own"),
    [
        (1250.0, ("gpu01", "gpu03", "gpu04"), True),
        (1099.0, ("gpu01", "gpu03", "gpu04"), False),
        (1250.0, ("gpu01", "gpu03"), False),  # other nodes than a pin excludes
    ],
)
def test_the_pin_of_an_earlier_start_may_be_of_another_way(
    held_job: ActorHarness, boot: float, excluded: tuple[str, ...], own: bool
) -> None:
    start_only_then_by_number(held_job)
    held_job.slurm.change(excluded_nodes=excluded)
    held_job.slurm.boot = boot
    held_job.refresh()
    held_job.actor.confirm(1342.0)
    assert (held_job.row.pinned, held_job.row.excluded) == ((True, "") if own else (False, ",".join(excluded)))
    held_job.actor.unpin(held_job.refresh(), 1343.0)
    assert held_job.job.excluded_nodes == (() if own else excluded)


def test_a_start_removes_a_forgotten_pin_of_another_way(held_job: ActorHarness) -> None:
    """slurmctld was killed between a snapshot and the start."""
    start_only_then_by_number(held_job)
    held_job.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(Start("1", OTHERS),)), 1300.0)
    held_job.slurm.change(excluded_nodes=("gpu01", "gpu03", "gpu04"))
    held_job.slurm.boot = 1250.0
    held_job.actor.advance(1300.5)
    assert (held_job.row.excluded, held_job.job.excluded_nodes, held_job.job.required_nodes) == ("", (), ("gpu03",))


@pytest.mark.parametrize(("boot", "own"), [(1200.0, True), (1099.0, False)])
def test_slurmctld_loses_the_removal_of_a_pin_between_a_snapshot_and_a_start(
    held_job: ActorHarness, boot: float, own: bool
) -> None:
    """The job is read again when it is started."""
    max_nodes = held_job.row.max_nodes
    fail_start(held_job, NODES, 1100.0)
    held_job.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(Start("1", OTHERS),)), 1200.0)
    held_job.slurm.change(required_nodes=("gpu02",), max_nodes=1)
    held_job.slurm.boot = boot
    held_job.actor.advance(1200.5)
    assert held_job.job.required_nodes == ("gpu03",)
    assert (held_job.row.required, held_job.row.max_nodes) == (("", max_nodes) if own else ("gpu02", 1))


def test_a_request_that_changed_after_a_removal_that_is_not_journaled_is_the_owners(held_job: ActorHarness) -> None:
    """The controller was killed between the call and its journal, and the owner changed the request before the next one."""
    fail_start(held_job, NODES, 1100.0)
    held_job.row.pinned = True
    held_job.slurm.change(min_nodes=1, max_nodes=3)
    held_job.refresh()
    assert (held_job.row.pinned, held_job.row.min_nodes, held_job.row.max_nodes) == (True, 1, 3)


def test_a_removed_pin_with_the_owners_nodes_is_not_read_as_a_request(held_job: ActorHarness) -> None:
    """The owner requests a node and no number of nodes; the pin has that node, and one node at most."""
    held_job.slurm.change(required_nodes=("gpu02",), max_nodes=0)
    held_job.refresh()
    fail_start(held_job, NODES, 1100.0)
    held_job.slurm.change(required_nodes=("gpu02",), max_nodes=1)
    held_job.slurm.boot = 1141.0
    held_job.refresh()
    held_job.actor.confirm(1142.0)
    assert (held_job.row.pinned, held_job.row.required, held_job.row.max_nodes) == (True, "gpu02", 0)


@pytest.mark.parametrize(
    ("boot", "max_nodes", "way"), [(1050.0, 0, "only"), (1050.0, 2, "number"), (900.0, 0, "number")]
)
def test_a_pin_sets_no_number_of_nodes_where_the_record_may_lack_the_owners(
    held_job: ActorHarness, boot: float, max_nodes: int, way: str
) -> None:
    """slurmctld was started after the submission, so that a request for one node shows no limit."""
    held_job.slurm.boot = boot
    held_job.slurm.change(max_nodes=max_nodes, submit_time=1000)
    held_job.refresh()
    held_job.start()
    held_job.actor.advance(1100.5)
    assert held_job.row.pin == way


def test_a_start_leaves_a_new_job_of_the_same_id_as_it_is(held_job: ActorHarness) -> None:
    """A killed slurmctld gave the id to another job since the snapshot."""
    held_job.start()
    held_job.slurm.change(submit_time=1099)
    held_job.actor.advance(1100.5)
    assert not {"pin", "lift"} & set(held_job.slurm.calls)
    assert not held_job.intents()


@pytest.mark.parametrize(("boot", "held", "again"), [(1102, True, 1), (1102, False, 1), (1099, True, 0)])
def test_a_requeue_that_a_killed_slurmctld_forgot_is_made_again(
    journal: Journal, running: Make, pending: Make, boot: int, held: bool, again: int
) -> None:
    """It shows the run that had ended; where it had saved its state before the hold, without that."""
    harness = ActorHarness(journal, running(1000))
    harness.slurm.jobs["2"] = pending(id="2", raw_id=2, priority=1, reason="None")
    harness.slurm.ends_at_once = False
    harness.report_parked()
    harness.refresh()
    harness.preempt(1100.0)
    for now in (1100.0, 1101.0, 1102.0):
        harness.actor.advance(now)
    assert (harness.slurm.calls.count("requeue"), harness.job.completing) == (1, True)
    harness.slurm.change(completing=False, priority=0 if held else 1)
    harness.slurm.boot, harness.slurm.ends_at_once = boot, True
    for now in (1103.0, 1104.0):
        harness.poll(now)
    assert harness.slurm.calls.count("requeue") == 1 + again
    assert (harness.job.state, harness.job.priority) == ("PENDING" if again else "RUNNING", 0)
    assert [one.step for one in harness.intents()] == [IntentStep.DRAIN] * (1 - again)
