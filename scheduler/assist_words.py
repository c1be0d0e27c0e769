"""The texts of the reasons of mode assist."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tiresias.scheduler.cell_words import jobs_in_words
from tiresias.scheduler.reason_codes import Reason, ReasonCode


def _order(reason: Reason) -> str:
    if reason.text:
        return f"Waiting in Slurm's order: job {reason.text}, which is not managed, is first on these nodes"
    return "Waiting in Slurm's order: a higher-ranked job waits for these nodes"


def _head(_: Reason) -> str:
    return "First in Slurm's order: Slurm starts it when enough is free; no preemption for it is possible or gains time"


def _costs(reason: Reason) -> str:
    return (
        f"First in Slurm's order: its wait is expected to take {reason.seconds:,.0f} s, and a preemption would cost other jobs "
        f"{reason.amount:,} s"
    )


def _assisted(reason: Reason) -> str:
    are = "is" if len(reason.jobs) == 1 else "are"
    return f"First in Slurm's order: {jobs_in_words(reason.jobs)} {are} preempted, so that Slurm starts it; {_gain(reason)}"


def _preempted(reason: Reason) -> str:
    return f"for job {reason.text}, which is first in Slurm's order: {_gain(reason)}"


def _gain(reason: Reason) -> str:
    gain = max(reason.seconds - reason.amount, 0.0)  # the cost is rounded
    return f"expected gain {gain:,.0f} s (a wait of {reason.seconds:,.0f} s, at a cost of {reason.amount:,} s)"


ASSIST_WORDS: Mapping[ReasonCode, Callable[[Reason], str]] = {
    ReasonCode.SLURM_ORDER: _order,
    ReasonCode.SLURM_HEAD: _head,
    ReasonCode.ASSIST_COSTS: _costs,
    ReasonCode.ASSISTED: _assisted,
    ReasonCode.PREEMPTED_TO_ASSIST: _preempted,
}
