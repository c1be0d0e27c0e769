"""The victims of one beneficiary, which are preempted together."""

from __future__ import annotations

from tiresias.slurm_plugin.state.intents import PREEMPTIONS, Intent, IntentStep
from tiresias.slurm_plugin.transitions.transition_context import TransitionContext
from tiresias.slurm_plugin.transitions.transition_table import RELEASING_GPUS, is_untouched


def group_of(context: TransitionContext, beneficiary: str) -> list[Intent]:
    """Return the victims whose runs may still continue."""
    preemptions = (one for one in context.intents.values() if one.kind in PREEMPTIONS)
    return [one for one in preemptions if one.beneficiary == beneficiary]


def still_release(context: TransitionContext, beneficiary: str) -> bool:
    """Return whether a victim has not released its GPUs yet, although it is to be, or has been, requeued."""
    return any(one.step in RELEASING_GPUS for one in group_of(context, beneficiary))


def give_up(context: TransitionContext, intent: Intent, now: float) -> None:
    """End the hand-over: victims to which nothing was done yet run on, the others save and are requeued."""
    for one in group_of(context, intent.beneficiary) if intent.beneficiary else ():
        if is_untouched(one):
            context.journal.step(one, IntentStep.SPARE, now)
        else:
            one.beneficiary = ""
            context.journal.step(one, one.step, one.stepped)
