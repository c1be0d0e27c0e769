"""The victims of one beneficiary, which are preempted together."""

from __future__ import annotations

from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.transitions.transition_context import TransitionContext
from tiresias.slurm_plugin.transitions.transition_table import BEFORE_SIGNAL


def group_of(context: TransitionContext, beneficiary: str) -> list[Intent]:
    """Return the victims whose runs may still continue."""
    preemptions = (one for one in context.intents.values() if one.kind == IntentKind.PREEMPT)
    return [one for one in preemptions if one.beneficiary == beneficiary]


def give_up(context: TransitionContext, intent: Intent, now: float) -> None:
    """End the hand-over: victims that were not signalled run on untouched, the others save and are requeued."""
    for one in group_of(context, intent.beneficiary) if intent.beneficiary else ():
        if one.step in BEFORE_SIGNAL:
            context.journal.step(one, IntentStep.SPARE, now)
        else:
            one.beneficiary = ""
            context.journal.step(one, one.step, one.stepped)
