"""Pins of mode assist: the beneficiary is pinned without a hold before its victims are requeued, and for no longer than needed."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import CONFIG, Make
from tests.slurm_plugin.transitions.test_handover import NODES, Group, plan
from tiresias.scheduler.model import Preempt, Start
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmUnavailable
from tiresias.slurm_plugin.state.intents import IntentKind
from tiresias.slurm_plugin.state.journal import Journal

PREEMPTIONS = (Preempt("1", "3"), Preempt("2", "3"))
WHY = {"1": "for job 3: gain", "2": "for job 3: gain"}
BOTH = ("gpu01", "gpu02")


@pytest.fixture
def group(journal: Journal, running: Make, pending: Make) -> Group:
    """Jobs 1 and 2 are preempted for job 3, which is to get the nodes of both."""
    found = Group(journal, running, pending)
    found.slurm.change("3", priority=7)
    found.actor.assist(plan(PREEMPTIONS, ()), WHY, 1490)
    return found


def suggest(group: Group, now: float) -> None:
    """A cycle of which the plan names the nodes."""
    group.actor.assist(plan((), (Start("3", NODES),)), {}, now)
    group.poll(now)


def drained(group: Group) -> None:
    """Let both save and release their GPUs."""
    suggest(group, 1491)
    group.parked("1", "2")
    suggest(group, 1492)
    group.poll(1493)


def pinned(group: Group) -> tuple[str, ...]:
    return group.slurm.jobs["3"].required_nodes  # of the back end in memory: also the nodes that a pin does not exclude


def test_the_beneficiary_is_pinned_before_the_requeue_and_not_held(group: Group) -> None:
    suggest(group, 1491)
    assert not pinned(group), "its victims have not saved"
    drained(group)
    calls = group.slurm.calls
    assert calls.index("pin") < calls.index("requeue")
    assert calls.count("hold") == 2, "the victims"
    assert not {"prioritize", "lift"} & {*calls}
    assert (pinned(group), group.slurm.jobs["3"].priority) == (BOTH, 7)
    assert group.steps() == {"1": "yielded", "2": "yielded", "3": "confirm"}
    assert group.why("3") == ["suggest: to gpu01:4, gpu02:4, where the preempted jobs release their GPUs"]
    group.actor.release_waiting(group.refresh(), 1494)
    assert pinned(group) == BOTH, "it is under way"


def test_the_pin_ends_with_the_start(group: Group) -> None:
    drained(group)
    group.slurm.change("3", state="RUNNING", start_time=1500)
    group.poll(1503)
    assert group.steps() == {}
    assert group.why("3")[-1] == "running: on gpu01:4, gpu02:4"
    group.slurm.change("3", state="PENDING", restarts=1, submit_time=1600, end_time=1600)
    group.actor.release_waiting(group.refresh(), 1700)
    assert (pinned(group), group.ledger.jobs["3"].pinned) == ((), False)
    assert group.slurm.calls.count("hold") == 2, "a pin that excludes nodes is removed without a hold"


def test_the_pin_is_removed_where_slurm_does_not_start_the_job(group: Group) -> None:
    drained(group)
    group.poll(1491 + CONFIG.start_timeout)
    assert pinned(group) == BOTH
    group.poll(1493 + CONFIG.start_timeout)
    assert (pinned(group), group.ledger.jobs["3"].pinned) == ((), False)
    assert group.why("3")[-1] == "not started: on gpu01:4, gpu02:4 by Slurm; the pin is removed"
    assert group.ledger.jobs["3"].failures == 1, "by its victims, which do not count twice"
    assert group.steps() == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_controller_that_is_killed_at_the_pin(group: Group, when: str) -> None:
    """Its successor pins the job, and requeues the victims then."""
    suggest(group, 1491)
    group.parked("1", "2")
    group.slurm.fail("pin", SlurmUnavailable("gone"), when)
    with pytest.raises(SlurmUnavailable):
        suggest(group, 1492)
    assert "requeue" not in group.slurm.calls
    group.restart_controller()
    suggest(group, 1493)
    assert pinned(group) == BOTH
    assert group.slurm.calls.count("requeue") == 2
    group.poll(1494 + CONFIG.start_timeout)
    group.poll(1495 + 2 * CONFIG.start_timeout)
    assert (pinned(group), group.ledger.jobs["3"].pinned, group.steps()) == ((), False, {})


@pytest.mark.parametrize("fails", [False, True])
def test_a_controller_that_stops_removes_the_pin(group: Group, fails: bool) -> None:
    """Also the one that acts for a dead one, whose journal alone it has."""
    drained(group)
    if fails:
        group.restart_controller()
    assert group.actor.release_all(1494) == []
    assert (pinned(group), group.ledger.jobs["3"].pinned) == ((), False)


def test_a_job_that_starts_before_the_pin(group: Group) -> None:
    """Slurm refuses the pin; nothing was changed."""
    suggest(group, 1491)
    group.parked("1", "2")
    group.slurm.fail("pin", JobRefused("job 3: Job is no longer pending execution"))
    suggest(group, 1492)
    assert group.why("3")[-1].startswith("refused: ")
    assert group.slurm.calls.count("requeue") == 2
    assert (group.ledger.jobs["3"].failures, group.ledger.jobs["3"].unmovable) == (0, "")


def test_a_job_that_starts_before_the_pin_is_removed(group: Group) -> None:
    drained(group)
    group.slurm.fail("unpin", JobRefused("job 3: Job is no longer pending execution"))
    group.poll(1493 + CONFIG.start_timeout)
    assert group.why("3")[-1].startswith("running: ")


def test_a_pin_that_changes_more_is_taken_back(group: Group) -> None:
    group.slurm.changed_by = {"only": {"tasks": 1}}
    drained(group)
    assert pinned(group) == ()
    assert group.why("3")[-1] == "not started: a pin would change more than its nodes"
    assert group.steps() == {"1": "yielded", "2": "yielded"}


def test_a_beneficiary_that_its_owner_holds_loses_the_pin(group: Group) -> None:
    drained(group)
    group.slurm.change("3", priority=0, reason="JobHeldUser")
    group.poll(1495)
    assert pinned(group) == ()


def test_no_pin_without_nodes_of_the_plan(group: Group) -> None:
    """As for a beneficiary that may run anywhere."""
    group.parked("1", "2")
    for now in (1491, 1492, 1493):
        group.actor.assist(plan((), ()), {}, now)
        group.poll(now)
    assert group.steps() == {"1": "yielded", "2": "yielded"}
    assert "pin" not in group.slurm.calls


def test_a_forgotten_unpin_is_found(group: Group) -> None:
    """A slurmctld that was killed after it shows the pin again; the nodes are not the owner's."""
    drained(group)
    group.poll(1493 + CONFIG.start_timeout)
    group.slurm.change("3", excluded_nodes=("gpu03",))
    group.slurm.boot = 1600.0
    group.actor.see(group.ledger.apply(group.slurm.snapshot()))
    group.actor.confirm(1601)
    assert group.ledger.jobs["3"].pinned
    assert group.ledger.jobs["3"].excluded == ""
    assert group.journal.starts(group.ledger.jobs["3"].key)[0].kind == IntentKind.SUGGEST
