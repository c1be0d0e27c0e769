"""A simulated job: its state, and what changes it."""

from __future__ import annotations

import math
from typing import ClassVar, Final

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.claims import FIRST_CLAIM_S
from tiresias.scheduler.evict.protection import first_step
from tiresias.scheduler.model import JobState
from tiresias.simulator import claimed_work, work

NEVER: Final = float("nan")
_WAITING: Final = int(JobState.WAITING)
_RUNNING: Final = int(JobState.RUNNING)
_RELEASING: Final = int(JobState.RELEASING)


class SimulatedJob:
    """One job of a simulation; methods change its state at a moment `now`, seconds. Policies see it as `Rows`.

    Service counts all seconds on GPUs, also those without progress.

    Attributes:
        row: Of the trace.
        gpus: GPUs that it requests.
        submit: Moment of its submission.
        duration: Seconds of work.
        state: A number of `JobState`.
        first_start: Moment of its first start.
        last_start: Moment of its last start.
        idle_until: So long it holds GPUs without progress, at the beginning of a run or at its end.
        paced_from: Since when it makes progress at its present speed.
        preempted: When it last went back to waiting.
        reset: When it was last promoted.
        movable_from: When it may be preempted.
        ends: While it runs: the moment at which its work is done.
        held: Seconds on GPUs in earlier runs.
        uncounted: Seconds on GPUs before the last promotion.
        done: Seconds of work in earlier runs, and in this one until `paced_from`.
        done_by_run: Of these, those of this run.
        slow: Seconds that a second of work takes where it runs.
        ran: Seconds on GPUs since the last promotion, at `now`.
        claimed_total: Claimed seconds of work in all; nan: the job does not report.
        claimed_part: Of what is left by that, the part that it claims.
        owner_trust: Weight of its owner's claims.
        owner_stretch: Factor by which its owner's jobs take longer than claimed.
        preemptions: Number of preemptions.
        resizes: Number of changes of its size.
        resizing: It was stopped to start again with another size.
        servers: Of its GPUs those of parameter servers.
        extra: GPU-seconds since the last promotion beyond `ran` x `gpus`, as its size was another one before.
        others: GPU-seconds of its owner's or array's other jobs, where they count as its own.
        owner_excess: GPU-seconds that its owner used more than others, by shares; nan: owners do not share.
        extra_before: The same, before the last promotion.
        stamp: Number of changes; an expected event with an older stamp is out of date.
    """

    preemption_cost: ClassVar[float | None] = None  # not measured: the policy's configuration has it

    __slots__ = (
        "claimed_part", "claimed_total", "done", "done_by_run", "duration", "ends", "extra", "extra_before", "first_start",
        "gpus", "held", "idle_until", "last_start", "movable_from", "now", "others", "owner_excess", "owner_stretch",
        "owner_trust", "paced_from", "preempted", "preemptions", "ran", "reset", "resizes", "resizing", "row", "servers",
        "slow", "stamp", "state", "submit", "uncounted",
    )  # fmt: skip

    def __init__(self, row: int, gpus: int, submit: float, duration: float) -> None:
        self.row, self.gpus, self.submit, self.duration = row, gpus, submit, duration
        self.state = _WAITING
        self.first_start = self.last_start = self.idle_until = self.paced_from = NEVER
        self.preempted = self.owner_excess = NEVER
        self.reset = self.movable_from = -math.inf
        self.ends = math.inf
        self.held = self.uncounted = self.done = self.done_by_run = self.ran = 0.0
        self.slow, self.now = 1.0, submit
        self.claimed_total = NEVER
        self.claimed_part = self.owner_trust = self.owner_stretch = 1.0
        self.extra = self.extra_before = self.others = 0.0
        self.preemptions = self.resizes = self.servers = self.stamp = 0
        self.resizing = False

    @property
    def attained(self) -> float:
        """GPU-seconds since the last promotion."""
        return self.ran * self.gpus + self.extra + self.others

    @property
    def waited(self) -> float:
        """Seconds of waiting since the last promotion."""
        return float(work.waited(self))

    @property
    def remaining(self) -> float:
        """Seconds of work left."""
        return float(work.remaining(self))

    def at(self, now: float) -> None:
        """Compute what depends on the time, as `work.ran` does for columns."""
        self.now = now
        ran = self.held - self.uncounted
        self.ran = ran if self.state == _WAITING else ran + (now - self.last_start)

    @property
    def claimed_remaining(self) -> float | None:
        """Seconds of work left by its reports, corrected; nan: no claim counts now; None: it does not report."""
        return None if math.isnan(self.claimed_total) else float(claimed_work.remaining(self))

    @property
    def claim_trust(self) -> float:
        """Weight of its claims: 0 once the job has worked past them."""
        return float(claimed_work.trust(self))

    def claim_changes(self) -> float:
        """Return when the first claim of the job is made, or its claims do not count any more, while it runs; inf: neither."""
        if self.state != _RUNNING or math.isnan(self.claimed_total):
            return math.inf
        until = float(claimed_work.claims(self).trusted_until)
        moments = (self.paced_from + (at - self.done) * self.slow for at in (FIRST_CLAIM_S, until))
        return min((moment for moment in moments if moment > self.now + claimed_work.ROUNDING_S), default=math.inf)

    def request(self, gpus: int) -> None:
        """Set the GPUs of a job of fixed size, before its first start. On half the GPUs its work takes twice as long."""
        self.duration *= self.gpus / gpus
        self.claimed_total *= self.gpus / gpus
        self.gpus = gpus

    def change_size(self, gpus: int, servers: int) -> None:
        """Set the size of an elastic job that waits. Its work and its attained service stay the same."""
        self.extra += self.ran * (self.gpus - gpus)
        self.extra_before += self.uncounted * (self.gpus - gpus)
        self.gpus, self.servers = gpus, servers

    def start(
        self, now: float, overhead: float, config: PolicyConfig, minimum_run: float = 0.0, slow: float = 1.0
    ) -> None:
        """Start the job.

        Args:
            now: Simulated time, seconds.
            overhead: Seconds until the job makes progress.
            config: Limits on preemptions (`cooldown`, `max_preemptions`, `protection_limit`).
            minimum_run: Seconds of progress before the job may be preempted.
            slow: Seconds that a second of work takes.
        """
        self.ends = now + overhead + (self.duration - self.done) * slow
        self.state, self.last_start, self.idle_until, self.slow = _RUNNING, now, now + overhead, slow
        self.paced_from, self.done_by_run = self.idle_until, 0.0
        self.resizing = False
        self.movable_from = self._progressed(minimum_run, config)
        if config.cooldown and self.preempted == self.preempted:  # nan: never
            self.movable_from = max(self.movable_from, self.preempted + config.cooldown)
        if config.max_preemptions and self.preemptions + self.resizes >= config.max_preemptions:
            self.movable_from = math.inf
        if self.first_start != self.first_start:  # nan: it never ran
            self.first_start = now
        self._happened(now)

    def change_speed(self, now: float, slow: float) -> None:
        """Let the running job go on at another speed. Its progress is kept, and its end is another one.

        Args:
            now: Simulated time, seconds.
            slow: Seconds that a second of work takes from now on.
        """
        worked = max(0.0, now - self.paced_from) / self.slow
        self.done += worked
        self.done_by_run += worked
        self.paced_from, self.slow = max(now, self.paced_from), slow
        self.ends = self.paced_from + max(self.duration - self.done, 0.0) * slow
        self._happened(now)

    def _progressed(self, minimum_run: float, config: PolicyConfig) -> float:
        """When the job has made progress for its minimum run time; as `protection.protected_until`."""
        if minimum_run <= 0:
            return float(self.last_start)
        return float(first_step(self.last_start, self.idle_until, config) + minimum_run)

    def preempt(self, now: float, overhead: float) -> None:
        """Stop the work; the job holds its GPUs for another `overhead` seconds."""
        self.preemptions += 1
        self._stop(now, overhead)

    def shrink(self, now: float, overhead: float) -> None:
        """Stop the work, as `preempt`; the job goes on with the GPUs that another one leaves."""
        self.resizes += 1
        self._stop(now, overhead)

    def resize(self, now: float, overhead: float) -> None:
        """Stop the work, as `preempt`, to start with another size."""
        self.resizes += 1
        self.resizing = True
        self._stop(now, overhead)

    def _stop(self, now: float, overhead: float) -> None:
        self.at(now)
        self.done = self.duration - self.remaining
        self.state, self.idle_until = _RELEASING, now + overhead
        self._happened(now)

    def fail(self, now: float, checkpoint_interval: float) -> float:
        """Return the job to its last checkpoint and let it wait. Returns the lost seconds of work."""
        self.at(now)
        worked = self.done_by_run + max(0.0, now - self.paced_from) / self.slow if self.state == _RUNNING else 0.0
        lost = worked % checkpoint_interval if checkpoint_interval else 0.0
        self.done = self.duration - self.remaining - lost
        self.wait(now)
        return lost

    def wait(self, now: float) -> None:
        """Let the job wait: it has released its GPUs."""
        self.held += now - self.last_start
        self.preempted, self.state, self.ends = now, _WAITING, math.inf
        self._happened(now)

    def promote(self, now: float) -> None:
        """Reset service and waiting time."""
        self.reset, self.uncounted = now, self.held
        self.extra, self.extra_before, self.others = 0.0, self.extra + self.extra_before, 0.0
        self._happened(now)

    def _happened(self, now: float) -> None:
        self.stamp += 1
        self.at(now)
