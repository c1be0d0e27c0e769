"""What may be done with the calls that are left: moves under way are finished first, and one is begun only where the calls that
it will need are there beside what those under way still need. So a preemption never stops halfway for want of calls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tiresias.slurm_plugin.backends.budget import PRICES, Bucket, Prices, unlimited
from tiresias.slurm_plugin.state.journal import Intent

# The verbs of each step of act.py's machines, and the steps that follow, where all goes well.
_VERBS: Mapping[str, tuple[str, ...]] = {
    "hold": ("hold",), "signal": ("signal",), "wait": (), "requeue": ("job", "requeue"), "drain": ("job",),
    "unhold": ("release",), "start": ("job", "pin", "job", "lift"), "confirm": (), "rehold": ("job", "job", "hold"),
    "turn": (), "parked": (), "spare": ("release",), "prioritize": ("prioritize",),
}  # fmt: skip
_LATER: Mapping[str, tuple[str, ...]] = {
    "hold": ("signal", "requeue", "drain"), "turn": ("signal", "requeue", "drain"), "signal": ("requeue", "drain"),
    "wait": ("requeue", "drain"), "parked": ("requeue", "drain"), "requeue": ("drain",),
}  # fmt: skip
_HAND_OVER = (
    "hold",
    "job",
    "pin",
    "job",
    "lift",
    "prioritize",
    "lift",
)  # of the beneficiary, once all its victims have parked
_BEFORE_IT = ("hold", "turn", "signal", "wait", "parked")  # steps of its victims
# What frees GPUs and jobs comes first, what takes them last.
_ORDER = (
    "requeue", "unhold", "spare", "rehold", "drain", "prioritize", "confirm", "parked", "wait", "signal", "turn", "hold", "start",
)  # fmt: skip
MOST = 0.75  # of the bucket
_URGENCY = {step: place for place, step in enumerate(_ORDER)}


class Allowance:
    def __init__(self, bucket: Bucket | None = None, prices: Prices = PRICES["pyslurm"]) -> None:
        """`bucket`: None for one without a limit."""
        self._bucket, self._prices = bucket or unlimited(), prices
        self._step = {step: sum(prices[verb] for verb in verbs) for step, verbs in _VERBS.items()}
        self._rest = {
            step: calls + sum(self._step[later] for later in _LATER.get(step, ())) for step, calls in self._step.items()
        }
        self._hand_over = sum(prices[verb] for verb in _HAND_OVER)
        self.postponed = 0  # moves and holds of the newest cycle that wait for calls

    def affords_hold(self, intents: Iterable[Intent]) -> bool:
        """Beside a start: a storm of arrivals must not keep the GPUs idle."""
        return self._affords(self._prices["hold"] + self._rest["start"], intents)

    def affords_start(self, intents: Iterable[Intent]) -> bool:
        """With the hold of a job that is not held yet."""
        return self._affords(self._prices["hold"] + self._rest["start"], intents)

    def affords_preemptions(self, count: int, intents: Iterable[Intent]) -> bool:
        """Of one beneficiary."""
        return self._affords(count * self._rest["hold"] + self._hand_over, intents)

    def affords_step(self, step: str) -> bool:
        """A look whether somebody has gone is the first to give way: the next snapshot tells, too."""
        calls = self._step[step] + (self._bucket.size / 2 if step == "drain" else 0.0)
        return not calls or self._bucket.tokens >= min(calls, self._bucket.size)

    def wait(self, intents: Iterable[Intent]) -> float:
        """Seconds until there are calls for a cycle beside what the moves under way need. After moves were postponed: and for
        several more, or looking again would take what they wait for."""
        several = self._bucket.size / 2 if self.postponed else self._rest["start"]
        return self._bucket.wait(self._prices["snapshot"] + self.promised(intents) + several)

    def spare(self, intents: Iterable[Intent]) -> float:
        """Calls for work that can wait: what is there beyond half of the bucket, and beyond what the moves under way need."""
        size = self._bucket.size
        return math.inf if math.isinf(size) else self._bucket.tokens - size / 2 - self.promised(intents)

    def promised(self, intents: Iterable[Intent]) -> int:
        """The calls that these moves still need."""
        moves = list(intents)
        begun = {one.id for one in moves if one.kind == "start"}
        waiting = {one.beneficiary for one in moves if one.beneficiary and one.step in _BEFORE_IT} - begun
        return sum(self._rest[one.step] for one in moves) + self._hand_over * len(waiting)

    def _affords(self, calls: int, intents: Iterable[Intent]) -> bool:
        """Whether something that needs so many may be begun; what may not counts as postponed. What needs more than the bucket
        ever has is begun all the same when most of it is there, and takes longer."""
        bucket = self._bucket
        fine = math.isinf(bucket.size) or bucket.tokens >= min(calls, MOST * bucket.size) + self.promised(intents)
        self.postponed += not fine
        return fine


def urgent_first(intents: Iterable[Intent]) -> list[Intent]:
    """Nearest to their end first, else as they were begun."""
    return sorted(intents, key=lambda intent: _URGENCY[intent.step])
