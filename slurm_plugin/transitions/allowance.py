"""What may be done with the calls that are left: transitions under way are finished first, and one is begun only where the calls
that it will need are there besides what those under way still need. So a preemption never stops halfway for lack of calls."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tiresias.slurm_plugin.backends.budget import PRICES, Bucket, Prices, unlimited
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.transitions.transition_table import BEFORE_REQUEUE, TABLE, Transition, path, row_of

LARGEST_SHARE = 0.75  # of the bucket, for what is begun


class Allowance:
    """Decides what the budget of calls affords.

    Attributes:
        postponed: transitions and holds of the newest cycle that wait for calls.
    """

    def __init__(self, bucket: Bucket | None = None, prices: Prices = PRICES["pyslurm"]) -> None:
        """`bucket`: None for one without a limit."""
        self._bucket, self._prices = bucket or unlimited(), prices
        self._price = {row: sum(prices[call] for call in row.calls) for row in TABLE}
        # from each step to the end, where all goes well
        self._rest = {(row.kind, row.step): self._price_of_path(row) for row in TABLE}
        self._preemption = self._rest[IntentKind.PREEMPT, IntentStep.HOLD]
        self._start = self._rest[IntentKind.START, IntentStep.START]
        # of a beneficiary once all its victims have parked; at its end it gets the usual priority again
        self._hand_over = (
            prices["hold"] + self._start + self._rest[IntentKind.START, IntentStep.PRIORITIZE] + prices["lift"]
        )
        self.postponed = 0

    def begin_cycle(self) -> None:
        """Count what is postponed anew."""
        self.postponed = 0

    def postpone(self, count: int) -> None:
        """Count transitions and holds that wait for the next cycle."""
        self.postponed += count

    def affords_hold(self, intents: Iterable[Intent]) -> bool:
        """Besides a start: a storm of arrivals must not keep the GPUs idle."""
        return self._affords(self._prices["hold"] + self._start, intents)

    def affords_start(self, intents: Iterable[Intent]) -> bool:
        """With the hold of a job that is not held yet."""
        return self._affords(self._prices["hold"] + self._start, intents)

    def affords_preemptions(self, count: int, intents: Iterable[Intent]) -> bool:
        """Of one beneficiary."""
        return self._affords(count * self._preemption + self._hand_over, intents)

    def affords_signal(self, intents: Iterable[Intent]) -> bool:
        """Of a job that is not preempted."""
        return self._affords(self._prices["signal"], intents)

    def affords_step(self, intent: Intent) -> bool:
        """A poll whether a job has released its GPUs is the first to be postponed: the next snapshot shows it, too."""
        calls = self._price[row_of(intent)] + (self._bucket.size / 2 if intent.step == IntentStep.DRAIN else 0.0)
        return not calls or self._bucket.tokens >= min(calls, self._bucket.size)

    def wait(self, intents: Iterable[Intent]) -> float:
        """Seconds until there are calls for a cycle besides what the transitions under way need.

        After some were postponed, for several more: another poll would take what they wait for."""
        several = self._bucket.size / 2 if self.postponed else self._start
        return self._bucket.wait(self._prices["snapshot"] + self.promised(intents) + several)

    def spare(self, intents: Iterable[Intent]) -> float:
        """Calls for work that can be deferred: what exceeds half of the bucket and the needs of the transitions under way."""
        size = self._bucket.size
        return math.inf if math.isinf(size) else self._bucket.tokens - size / 2 - self.promised(intents)

    def promised(self, intents: Iterable[Intent]) -> int:
        """The calls that these transitions still need."""
        open_intents = list(intents)
        begun = {one.id for one in open_intents if one.kind == IntentKind.START}
        waiting = {one.beneficiary for one in open_intents if one.beneficiary and one.step in BEFORE_REQUEUE} - begun
        return sum(self._rest[one.kind, one.step] for one in open_intents) + self._hand_over * len(waiting)

    def _price_of_path(self, row: Transition) -> int:
        return sum(self._price[later] for later in path(row.kind, row.step))

    def _affords(self, calls: int, intents: Iterable[Intent]) -> bool:
        """Whether something that needs so many calls may be begun; what may not counts as postponed.

        What needs more than the bucket ever has is begun when most of it is there, and takes longer."""
        bucket = self._bucket
        fine = math.isinf(bucket.size) or bucket.tokens >= min(calls, LARGEST_SHARE * bucket.size) + self.promised(
            intents
        )
        self.postponed += not fine
        return fine


def urgent_first(intents: Iterable[Intent]) -> list[Intent]:
    """Nearest to their end first, else as they were begun."""
    return sorted(intents, key=lambda intent: row_of(intent).urgency)
