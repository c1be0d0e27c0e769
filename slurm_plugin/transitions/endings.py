"""How intents end: each outcome with its details, as the journal and the log have them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tiresias.slurm_plugin.state.intents import IntentOutcome


class End(NamedTuple):
    """The end of one intent. details: a sentence with its parameters filled in."""

    outcome: IntentOutcome
    details: str

    @property
    def stored(self) -> str:
        """The text in the journal."""
        return f"{self.outcome}: {self.details}"


class Ending(Enum):
    """An outcome and the sentence that explains it; the names in braces are its parameters."""

    ENDED_BEFORE_PREEMPTION = IntentOutcome.ENDED, "before it was preempted"
    ENDED_IN_PREEMPTION = IntentOutcome.ENDED, "while it was being preempted"
    ENDED_BEFORE_START = IntentOutcome.ENDED, "before it was started"
    ENDED_AT_ONCE = IntentOutcome.ENDED, "at once"
    PARKED = IntentOutcome.PARKED, "{seconds:.2f} s after the decision"
    PARKED_BEFORE_START = IntentOutcome.PARKED, "{seconds:.2f} s after the decision; job {beneficiary} runs"
    PARKED_IN_VAIN = (
        IntentOutcome.PARKED,
        "{seconds:.2f} s after the decision; Slurm did not start job {beneficiary} on its GPUs, for which no job is preempted "
        "again for {backoff:.0f} s",
    )
    RESTARTED = (
        IntentOutcome.RESTARTED,
        "its run was ended {seconds:.2f} s after the decision; {lost:.0f} s of it are done again",
    )
    RUNNING = IntentOutcome.RUNNING, "on {nodes}"
    NOT_PREEMPTED = IntentOutcome.LEFT_RUNNING, "it could not be preempted"
    NOT_NEEDED = IntentOutcome.LEFT_RUNNING, "job {beneficiary} cannot use its GPUs any more"
    BLOCKED = IntentOutcome.NOT_STARTED, "its owner, an administrator or a dependency holds it by now"
    MOVED = IntentOutcome.NOT_STARTED, "it was moved from account {account} or QOS {qos} since the decision"
    BEGINS_LATER = IntentOutcome.NOT_STARTED, "its owner set a later begin time"
    NOT_STARTED = IntentOutcome.NOT_STARTED, "Slurm reports {reason}; tried again in {seconds:.0f} s"
    NOT_RESIZED = (
        IntentOutcome.NOT_STARTED,
        "{why}; it keeps the size that its owner requested",
    )
    NOT_SUGGESTED = IntentOutcome.NOT_STARTED, "a pin would change more than its nodes"
    NOT_THERE = IntentOutcome.NOT_STARTED, "on {nodes} by Slurm; the pin is removed"
    LEFT_TO_SLURM = IntentOutcome.LEFT_TO_SLURM, "{why}"
    UNMANAGED = IntentOutcome.LEFT, "for partitions or nodes that are not managed"
    REFUSED = IntentOutcome.REFUSED, "{message}"
    RELEASED = IntentOutcome.RELEASED, "the controller stops"

    def end(self, **parameters: object) -> End:
        """Return the end with the parameters filled in."""
        outcome, sentence = self.value
        return End(outcome, sentence.format(**parameters))
