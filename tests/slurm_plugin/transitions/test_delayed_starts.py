"""A start in cells that Slurm delays for another job gets the highest priority, unless Slurm has planned its nodes for that job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.slurm_plugin.transitions.actor_harness import NODES, ActorHarness
from tiresias.scheduler.model import Plan, Start
from tiresias.slurm_plugin.backends.interface import TOP_PRIORITY, SlurmNode, SlurmUnavailable

NO_ROWS = np.zeros(0, np.int64)


def node(name: str, *flags: str) -> SlurmNode:
    return SlurmNode(name, "IDLE", frozenset(flags), "", 4, 0, "", 16, 0, 64000, 0, (), ("gpu",))


def release(harness: ActorHarness, *, reason: str, cells: tuple[str, ...], flags: tuple[str, ...] = ()) -> None:
    """Start job 1 at 1100; Slurm passes over it with this reason."""
    harness.slurm.starts = False
    harness.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(Start("1", NODES, owned_cells=cells),)), 1100.0)
    harness.actor.advance(1100.0)
    harness.slurm.change(reason=reason)
    harness.slurm.nodes = (node("gpu01"), node("gpu02", *flags))


def confirm(harness: ActorHarness, now: float) -> None:
    snapshot = harness.slurm.snapshot()
    harness.actor.see(harness.ledger.apply(snapshot), now, snapshot.nodes)
    harness.actor.confirm(now)


@pytest.mark.parametrize(("reason", "waited"), [("Priority", 1.0), ("None", 6.0)])
def test_it_goes_first_once_and_gets_its_priority_back(held_job: ActorHarness, reason: str, waited: float) -> None:
    release(held_job, reason=reason, cells=("node",))
    confirm(held_job, 1100.0 + waited)
    assert held_job.job.priority == TOP_PRIORITY
    confirm(held_job, 1110.0)
    assert held_job.slurm.calls.count("prioritize") == 1
    decision = "goes first: a job that Slurm ranks before it must not delay a start in cells of its virtual cluster"
    assert held_job.news().count(decision) == 1
    held_job.slurm.change(state="RUNNING")
    confirm(held_job, 1111.0)
    assert held_job.job.priority < TOP_PRIORITY
    assert not held_job.intents()


@pytest.mark.parametrize(
    "case",
    [
        {"reason": "Priority", "cells": ()},
        {"reason": "Priority", "cells": ("node",), "flags": ("PLANNED",)},
        {"reason": "Resources", "cells": ("node",)},
        {"reason": "None", "cells": ("node",)},
    ],
)
def test_other_starts_wait_as_slurm_decides(held_job: ActorHarness, case: dict[str, Any]) -> None:
    release(held_job, **case)
    confirm(held_job, 1101.0)
    assert "prioritize" not in held_job.slurm.calls
    assert [intent.step for intent in held_job.intents()] == ["confirm"]


def test_a_controller_that_starts_continues_before_the_priority_is_set(held_job: ActorHarness) -> None:
    release(held_job, reason="Priority", cells=("node",))
    held_job.slurm.fail("prioritize", SlurmUnavailable("down"))
    with pytest.raises(SlurmUnavailable):
        confirm(held_job, 1101.0)
    held_job.restart_controller()
    held_job.actor.advance(1102.0)
    assert held_job.job.priority == TOP_PRIORITY


def test_it_goes_first_once_a_pass_where_the_clock_was_set_back(held_job: ActorHarness) -> None:
    """The snapshot appears to be newer than all that is done after it."""
    release(held_job, reason="Priority", cells=("node",))
    held_job.poll(1101.0)
    assert held_job.slurm.calls.count("prioritize") == 1
