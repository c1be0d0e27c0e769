"""The transition table is complete: each row has an operation, and every step leads to an end."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import ActorHarness, Make
from tiresias.slurm_plugin.config import PreemptionConfig
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.transitions.transition_engine import STAY
from tiresias.slurm_plugin.transitions.transition_table import (
    BEFORE_PARKED,
    BEFORE_REQUEUE,
    BEFORE_SIGNAL,
    RELEASING_GPUS,
    TABLE,
    Operation,
    Transition,
    is_overdue,
    is_untouched,
    path,
)

ROWS = {(row.kind, row.step): row for row in TABLE}


def test_each_state_has_one_row_and_each_step_and_operation_has_a_row() -> None:
    assert len(ROWS) == len(TABLE)
    assert {row.step for row in TABLE} == set(IntentStep)
    assert {row.kind for row in TABLE} == set(IntentKind)
    assert {row.operation for row in TABLE} == set(Operation)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.kind}-{row.step}")
def test_each_row_leads_to_rows_of_its_kind_and_to_an_end(row: Transition) -> None:
    following = [row.following] if row.following else []
    assert all((row.kind, step) in ROWS for step in (*following, *row.otherwise))
    assert list(path(row.kind, row.step))[-1].following is None


def test_the_path_of_a_preemption() -> None:
    steps = [str(row.step) for row in path(IntentKind.PREEMPT, IntentStep.HOLD)]
    assert steps == ["hold", "turn", "signal", "wait", "parked", "requeue", "drain"]
    assert BEFORE_SIGNAL == ("hold", "turn")
    assert BEFORE_PARKED == ("hold", "turn", "signal", "wait")
    assert BEFORE_REQUEUE == ("hold", "turn", "signal", "wait", "parked")
    assert RELEASING_GPUS == ("requeue", "drain")


def test_the_path_of_a_preemption_in_mode_assist() -> None:
    steps = [str(row.step) for row in path(IntentKind.ASSIST, IntentStep.HOLD)]
    assert steps == ["hold", "turn", "signal", "wait", "parked", "requeue", "drain", "yielded"]


def test_the_path_of_a_pin_in_mode_assist() -> None:
    assert [str(row.step) for row in path(IntentKind.SUGGEST, IntentStep.START)] == ["start", "confirm"]


def test_the_path_of_a_preemption_by_restart() -> None:
    steps = [str(row.step) for row in path(IntentKind.RESTART, IntentStep.HOLD)]
    assert steps == ["hold", "turn", "parked", "requeue", "drain"]


@pytest.mark.parametrize(
    ("kind", "last"), [(IntentKind.PREEMPT, IntentStep.TURN), (IntentKind.RESTART, IntentStep.PARKED)]
)
def test_a_job_is_untouched_until_it_is_signalled_or_requeued(kind: IntentKind, last: IntentStep) -> None:
    steps = [row.step for row in path(kind, IntentStep.HOLD)]
    untouched = [step for step in steps if is_untouched(Intent("1@0", "1", 0, kind, step))]
    assert untouched == steps[: steps.index(last) + 1]


def test_steps_that_release_gpus_are_more_urgent_than_steps_that_use_them() -> None:
    """Rows of one step have one urgency, whatever their kind."""
    journaled = [row for row in TABLE if row.kind != IntentKind.RELEASE]
    urgency = {row.step: row.urgency for row in journaled}
    assert all(urgency[row.step] == row.urgency for row in journaled)
    assert sorted(urgency, key=lambda step: urgency[step]) == [
        "requeue", "unhold", "spare", "rehold", "pinned", "drain", "prioritize", "confirm", "parked", "wait", "signal", "turn",
        "hold", "start", "yielded",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "step", "seconds"), [("preempt", "wait", 120.0), ("renew", "wait", 120.0), ("start", "confirm", 30.0)]
)
def test_a_time_limit_is_a_setting_of_preemption(kind: str, step: str, seconds: float) -> None:
    config = PreemptionConfig(deadline=120.0, start_timeout=30.0)
    intent = Intent("1@0", "1", 0, IntentKind(kind), IntentStep(step), began=1000.0, stepped=1000.0)
    assert not is_overdue(intent, config, 1000.0 + seconds - 0.5)
    assert is_overdue(intent, config, 1000.0 + seconds)


def test_a_step_without_a_time_limit_is_never_overdue() -> None:
    config = PreemptionConfig(deadline=120.0, start_timeout=30.0)
    assert not is_overdue(Intent("1@0", "1", 0, IntentKind.PREEMPT, IntentStep.DRAIN), config, 1e9)


def test_a_step_that_the_table_does_not_list_is_refused(journal: Journal, running: Make) -> None:
    """The job is set aside, and its intent stays where it was."""
    harness = ActorHarness(journal, running(1000))
    harness.preempt()
    engine = harness.actor._engine
    engine.add({Operation.HOLD: lambda intent, now: IntentStep.DRAIN})
    harness.actor.advance(1100)
    assert harness.actor.context.quarantine.holds("1")
    assert [one.step for one in harness.intents()] == [IntentStep.HOLD]


def test_an_operation_that_stays_journals_nothing(journal: Journal, running: Make) -> None:
    harness = ActorHarness(journal, running(1000))
    harness.preempt()
    harness.actor._engine.add({Operation.HOLD: lambda intent, now: STAY})
    harness.actor.advance(1200)
    assert [(one.step, one.stepped) for one in harness.intents()] == [(IntentStep.HOLD, 1100.0)]
