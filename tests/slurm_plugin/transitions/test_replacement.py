"""A job that leaves a slow node, and a controller that ends meanwhile."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import ActorHarness
from tiresias.durable.database import Unwritable
from tiresias.slurm_plugin.state.avoided_nodes import SLOW_NODES_S

AVOIDED = ("gpu02", 1100.0 + SLOW_NODES_S)


def replace(job: ActorHarness) -> None:
    job.actor.replace("1", frozenset({"gpu02"}), "so that it starts again without gpu02", 1100.0)


def avoided(job: ActorHarness) -> tuple[str, float]:
    return job.row.slow_nodes, job.row.slow_until


def test_the_node_is_avoided_by_a_controller_that_starts_at_any_step(running_job: ActorHarness) -> None:
    replace(running_job)
    steps = []
    for second in range(1101, 1120):
        running_job.restart_controller()
        assert avoided(running_job) == AVOIDED
        steps += [one.step for one in running_job.intents()]
        if steps[-1:] == ["wait"]:
            running_job.report_parked()
        running_job.poll(second)
    assert steps[0] == "hold"
    assert "wait" in steps
    assert running_job.job.state == "PENDING"
    assert running_job.intents() == []
    running_job.restart_controller()
    assert avoided(running_job) == AVOIDED


def test_the_node_and_the_transition_are_written_together(
    running_job: ActorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transition that cannot be written leaves no avoided node: the job still runs there, and its slow rank is found again."""

    def full(*_: object) -> None:
        raise Unwritable(running_job.journal.path, "disk full")

    monkeypatch.setattr(running_job.journal, "begin", full)
    with pytest.raises(Unwritable):
        replace(running_job)
    monkeypatch.undo()
    running_job.restart_controller()
    assert avoided(running_job) == ("", 0.0)
    replace(running_job)
    assert avoided(running_job) == AVOIDED
    assert [one.kind for one in running_job.intents()] == ["replace"]
