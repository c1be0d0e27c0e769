"""How long further preemptions for one beneficiary wait for Slurm to start it."""

from __future__ import annotations

import pytest

from tiresias.slurm_plugin.assist.assist_decision import SLURM_PASS_S, served
from tiresias.slurm_plugin.observation.job_phases import CLEAN_UP_S
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.transitions.transition_table import TABLE

RELEASED_AT = 1000.0


def victim(step: IntentStep, kind: IntentKind = IntentKind.ASSIST) -> Intent:
    return Intent("1@0", "1", 0, kind, step, beneficiary="3", began=900.0, stepped=RELEASED_AT)


@pytest.mark.parametrize("step", [row.step for row in TABLE if row.kind == IntentKind.ASSIST])
def test_slurm_gets_the_time_of_a_pass_once_gpus_are_released(step: IntentStep) -> None:
    """While jobs save, a beneficiary that does not fit any more gets further ones."""
    limit = {"requeue": CLEAN_UP_S, "drain": CLEAN_UP_S, "yielded": SLURM_PASS_S}.get(str(step), 0.0)
    assert served([victim(step)], RELEASED_AT + limit + 0.1) == frozenset()
    assert served([victim(step)], RELEASED_AT + limit - 0.1) == (frozenset({"3"}) if limit else frozenset())


def test_one_job_that_releases_its_gpus_is_enough() -> None:
    others = [victim(IntentStep.WAIT), victim(IntentStep.YIELDED), victim(IntentStep.HOLD)]
    assert served(others, RELEASED_AT) == {"3"}
    assert served([victim(IntentStep.DRAIN, IntentKind.PREEMPT)], RELEASED_AT) == frozenset()
