"""Jobs whose request every pin changes, or whose starts Slurm refuses, are left to Slurm."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import ActorHarness
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable


def test_a_pin_that_changes_the_job_is_replaced_by_the_other_kind_of_pin(held_job: ActorHarness) -> None:
    held_job.slurm.changed_by = {"required": {"tasks": 1, "cpus": 1}}
    held_job.start()
    held_job.actor.advance(1100)
    held_job.poll(1101)
    assert (held_job.job.state, held_job.job.tasks, held_job.job.cpus) == ("RUNNING", 4, 4)
    assert "pin taken back: it changed tasks 4 to 1, cpus 4 to 1" in held_job.news()


@pytest.mark.parametrize("dies", ["", "pin", "unpin", "release", "job"])
def test_a_job_that_every_pin_changes_is_left_to_slurm(held_job: ActorHarness, dies: str) -> None:
    held_job.slurm.changed_by = {"required": {"tasks": 1}, "only": {"memory_per_cpu": 7}}
    held_job.start()
    if dies:
        held_job.slurm.fail(dies, SlurmUnavailable("no answer"), "after")
        with pytest.raises(SlurmUnavailable):
            held_job.actor.advance(1100)
        held_job.restart_controller()
    held_job.actor.advance(1101)
    assert (held_job.job.priority, held_job.job.required_nodes, held_job.job.tasks, held_job.job.memory_per_cpu) == (
        1,
        (),
        4,
        100,
    )
    assert (held_job.row.held, held_job.row.pinned, held_job.journal.open_intents()) == (False, False, [])
    assert held_job.actor.alarms == [
        "job 1: left to Slurm, because every pin to nodes changes its request: memory per cpu 100 to 7"
    ]


def test_a_job_that_slurm_reports_as_impossible_on_every_plan_is_left_to_slurm(held_job: ActorHarness) -> None:
    held_job.slurm.starts = False
    for now in (1100.0, 2100.0, 3100.0):
        assert not held_job.actor.alarms
        held_job.refresh()
        held_job.start(now)
        held_job.actor.advance(now)
        held_job.slurm.change(reason="BadConstraints", priority=0)
        held_job.poll(now + 31)
        if now < 3100.0:
            assert held_job.job.held_by_admin
            held_job.slurm.change(reason="JobHeldAdmin")
    assert held_job.actor.alarms == ["job 1: left to Slurm, because Slurm refused 3 starts: BadConstraints"]
    assert (held_job.job.priority, held_job.job.required_nodes, held_job.job.excluded_nodes) == (1, (), ())
    assert (held_job.row.held, held_job.row.pinned, held_job.intents()) == (False, False, [])


def test_a_start_that_slurm_cannot_serve_for_another_reason_is_tried_again(held_job: ActorHarness) -> None:
    held_job.slurm.starts = False
    for now in (1100.0, 2100.0, 3100.0, 4100.0):
        held_job.start(now)
        held_job.actor.advance(now)
        held_job.slurm.change(reason="Resources")
        held_job.poll(now + 31)
    assert (held_job.actor.alarms, held_job.row.held) == ([], True)


def test_a_job_that_is_left_to_slurm_is_managed_again_when_its_owner_changes_the_request(
    held_job: ActorHarness,
) -> None:
    held_job.slurm.changed_by = {"required": {"tasks": 1}, "only": {"tasks": 1}}
    held_job.start()
    held_job.actor.advance(1101)
    assert held_job.actor.alarms
    held_job.slurm.change(excluded_nodes=("gpu04",))
    held_job.refresh()
    held_job.actor.confirm(1102)
    assert not held_job.actor.alarms


def test_a_job_with_fewer_gpus_than_nodes_is_left_to_slurm(held_job: ActorHarness) -> None:
    held_job.slurm.change(gpus=1, min_nodes=2)
    held_job.actor.release_left_to_slurm(held_job.refresh(), 1101)
    assert held_job.actor.alarms == ["job 1: left to Slurm, because it requests fewer GPUs (1) than nodes (2)"]
    assert (held_job.job.priority, held_job.row.held) == (1, False)


def test_a_preempted_job_that_is_left_to_slurm_is_released(held_job: ActorHarness) -> None:
    held_job.row.unpinnable = "pins_change_request: tasks 4 to 1"
    assert held_job.job.held_by_admin
    held_job.actor.release_left_to_slurm(held_job.refresh(), 1101)
    assert (held_job.job.priority, held_job.row.held) == (1, False)
