"""Which transitions may begin with the remaining calls to slurmctld."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.backends.budget import PRICES, Bucket
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.transitions.allowance import Allowance, urgent_first
from tiresias.slurm_plugin.transitions.transition_table import TABLE

ROWS = [row for row in TABLE if row.kind != IntentKind.RELEASE]
INTENTS = st.lists(st.sampled_from(ROWS), max_size=8).map(
    lambda rows: [Intent(f"{n}@0", str(n), 0, row.kind, row.step) for n, row in enumerate(rows)]
)
PRICE = PRICES["commands"]
# hold, signal, poll and requeue, poll
ONE_PREEMPTION = PRICE["hold"] + PRICE["signal"] + 2 * PRICE["job"] + PRICE["requeue"]
# hold and poll the beneficiary, start it, put it first in the queue; later undo that
PREEMPTION_AND_START = ONE_PREEMPTION + sum(
    PRICE[verb] for verb in ("hold", "job", "pin", "job", "lift", "prioritize", "lift")
)
SIZE = 24


def allowance(tokens: int) -> Allowance:
    """Return an allowance on a clock that does not advance."""
    bucket = Bucket(SIZE, 1.6, lambda: 0.0)
    bucket.take(SIZE - tokens)
    return Allowance(bucket, PRICE)


def at(step: IntentStep) -> Intent:
    return Intent("1@0", "1", 0, IntentKind.PREEMPT, step)


@given(st.integers(0, SIZE), INTENTS)
def test_a_preemption_is_begun_only_where_it_can_be_finished(tokens: int, intents: list[Intent]) -> None:
    own = allowance(tokens)
    begun = own.affords_preemptions(1, intents)
    assert begun == (tokens >= PREEMPTION_AND_START + own.promised(intents))


@given(st.integers(0, 3))
def test_a_preemption_that_was_begun_completes(others: int) -> None:
    """Its steps have enough calls one after the other, although the bucket is not refilled."""
    bucket = Bucket(SIZE, 1.6, lambda: 0.0)
    own = Allowance(bucket, PRICE)
    intents = [Intent(f"{n}@0", str(n), 0, IntentKind.PREEMPT, IntentStep.HOLD) for n in range(others + 1)]
    begun = [one for at, one in enumerate(intents) if own.affords_preemptions(1, intents[:at])]
    for step, price in (
        (IntentStep.HOLD, PRICE["hold"]),
        (IntentStep.SIGNAL, PRICE["signal"]),
        (IntentStep.REQUEUE, PRICE["job"] + PRICE["requeue"]),
    ):
        for intent in begun:
            intent.step = step
            assert own.affords_step(intent), intent
            bucket.take(price)
    assert begun


def test_a_preemption_above_the_bucket_size_begins_at_three_quarters_of_a_bucket() -> None:
    assert not allowance(17).affords_preemptions(100, ())
    assert allowance(18).affords_preemptions(100, ())


def test_postponed_transitions_are_counted() -> None:
    own = allowance(PREEMPTION_AND_START)
    assert not own.affords_preemptions(2, ())
    assert own.affords_start(())
    assert own.affords_hold(())
    assert own.postponed == 1


def test_after_a_postponed_transition_the_next_cycle_waits_for_half_a_bucket() -> None:
    own = allowance(0)
    soon = own.wait(())
    own.affords_hold(())
    assert own.wait(()) == (PRICE["snapshot"] + SIZE / 2) / 1.6 > soon


def test_without_a_limit_everything_is_allowed() -> None:
    own = Allowance()
    assert own.affords_preemptions(10**9, ())
    assert own.affords_step(at(IntentStep.DRAIN))
    assert own.wait(()) == 0.0


def test_steps_without_calls_are_always_allowed_and_polls_are_postponed_first() -> None:
    assert allowance(-5).affords_step(at(IntentStep.WAIT))
    assert not allowance(1).affords_step(at(IntentStep.REQUEUE))
    assert allowance(2).affords_step(at(IntentStep.REQUEUE))
    assert not allowance(12).affords_step(at(IntentStep.DRAIN))
    assert allowance(13).affords_step(at(IntentStep.DRAIN))


@given(INTENTS)
def test_intents_nearest_to_their_end_are_first(intents: list[Intent]) -> None:
    steps = [one.step for one in urgent_first(intents)]
    for early, late in (
        (IntentStep.REQUEUE, IntentStep.HOLD),
        (IntentStep.UNHOLD, IntentStep.START),
        (IntentStep.SIGNAL, IntentStep.START),
        (IntentStep.REHOLD, IntentStep.SIGNAL),
    ):
        if early in steps and late in steps:
            assert steps.index(late) > max(at for at, step in enumerate(steps) if step == early)
