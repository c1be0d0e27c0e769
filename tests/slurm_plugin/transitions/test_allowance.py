"""What may be begun with the calls that are left."""

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
# hold, signal, look and requeue, look again
MOVE = PRICE["hold"] + PRICE["signal"] + 2 * PRICE["job"] + PRICE["requeue"]
# look at the beneficiary, which may be free, start it, put it first; later take that back
WHOLE = MOVE + sum(PRICE[verb] for verb in ("hold", "job", "pin", "job", "lift", "prioritize", "lift"))
SIZE = 24


def allowance(tokens: int) -> Allowance:
    """On a clock that stands still."""
    bucket = Bucket(SIZE, 1.6, lambda: 0.0)
    bucket.take(SIZE - tokens)
    return Allowance(bucket, PRICE)


def at(step: IntentStep) -> Intent:
    return Intent("1@0", "1", 0, IntentKind.PREEMPT, step)


@given(st.integers(0, SIZE), INTENTS)
def test_a_preemption_is_begun_only_where_it_can_be_finished(tokens: int, intents: list[Intent]) -> None:
    own = allowance(tokens)
    begun = own.affords_preemptions(1, intents)
    assert begun == (tokens >= WHOLE + own.promised(intents))


@given(st.integers(0, 3))
def test_one_that_was_begun_gets_to_its_end(others: int) -> None:
    """Its steps find the calls there, one after the other, though nothing is refilled."""
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


def test_what_needs_more_than_there_ever_is_begins_when_most_of_it_is_there() -> None:
    assert not allowance(17).affords_preemptions(100, ())
    assert allowance(18).affords_preemptions(100, ())


def test_what_was_not_begun_is_counted() -> None:
    own = allowance(WHOLE)
    assert not own.affords_preemptions(2, ())
    assert own.affords_start(())
    assert own.affords_hold(())
    assert own.postponed == 1


def test_after_something_was_postponed_the_next_cycle_leaves_half_a_bucket_for_it() -> None:
    own = allowance(0)
    soon = own.wait(())
    own.affords_hold(())
    assert own.wait(()) == (PRICE["snapshot"] + SIZE / 2) / 1.6 > soon


def test_without_a_limit_all_goes() -> None:
    own = Allowance()
    assert own.affords_preemptions(10**9, ())
    assert own.affords_step(at(IntentStep.DRAIN))
    assert own.wait(()) == 0.0


def test_steps_without_calls_go_even_in_debt_and_looks_give_way_first() -> None:
    assert allowance(-5).affords_step(at(IntentStep.WAIT))
    assert not allowance(1).affords_step(at(IntentStep.REQUEUE))
    assert allowance(2).affords_step(at(IntentStep.REQUEUE))
    assert not allowance(12).affords_step(at(IntentStep.DRAIN))
    assert allowance(13).affords_step(at(IntentStep.DRAIN))


@given(INTENTS)
def test_those_nearest_to_their_end_come_first(intents: list[Intent]) -> None:
    steps = [one.step for one in urgent_first(intents)]
    for early, late in (("requeue", "hold"), ("unhold", "start"), ("signal", "start"), ("rehold", "signal")):
        if early in steps and late in steps:
            assert steps.index(late) > max(at for at, step in enumerate(steps) if step == early)
