"""A token bucket limits the controller's calls to slurmctld.

Slurm's own limit (SlurmctldParameters=rl_enable) blocks a client for a second at a time, during any operation. The bucket's limit
is lower, so that the controller itself chooses which operations wait (allowance.py).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tiresias.slurm_plugin.backends.interface import (
    Backend,
    CommentField,
    Comments,
    RequestChange,
    SlurmJob,
    SlurmLoad,
    SlurmSnapshot,
    StatedGpus,
)
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules

Prices = Mapping[str, int]

# RPCs of each verb at most; tests/slurm_plugin/backends/test_prices.py has slurmctld count them. A snapshot that meets changed
# jobs asks twice for jobs; scontrol reads a job before it changes the number of its nodes; pyslurm asks for federations and,
# of a running job, for its steps.
PRICES: Mapping[str, Prices] = {
    "commands": {
        "version": 2, "topology": 1, "load": 1, "snapshot": 5, "rules": 8, "job": 1,
        "hold": 1, "lift": 1, "release": 3, "pin": 3, "unpin": 3,
        "signal": 4, "requeue": 1, "begin_now": 1, "booted": 2, "prioritize": 1,
        "comments": 1, "set_comment": 1, "stated_gpus": 1, "batch_script": 1,
    },
    "pyslurm": {
        "version": 1, "topology": 1, "load": 1, "snapshot": 4, "rules": 8, "job": 4,
        "hold": 1, "lift": 1, "release": 6, "pin": 3, "unpin": 3,
        "signal": 5, "requeue": 1, "begin_now": 1, "booted": 2, "prioritize": 1,
        "comments": 1, "set_comment": 1, "stated_gpus": 1, "batch_script": 1,
    },
}  # fmt: skip


class Bucket:
    """A bucket of `size` tokens, refilled by `rate` tokens a second. An infinite size: no limit.

    A caller that checks `tokens` or `wait` first, and takes no more than available, makes at most size + rate * t calls in any t
    seconds. `take` itself never refuses: a debt is repaid first.
    """

    def __init__(self, size: float, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.size, self.rate, self._clock = size, rate, clock
        self._tokens, self._at = size, clock()

    def resize(self, size: float, rate: float) -> None:
        """From now on; what was taken stays taken."""
        tokens = self.tokens
        self.size, self.rate = size, rate
        self._tokens = size if math.isinf(size) else min(tokens, size)

    @property
    def tokens(self) -> float:
        """The number of calls that may be made now; negative: a debt."""
        now = self._clock()
        self._tokens, self._at = min(self.size, self._tokens + (now - self._at) * self.rate), now
        return self._tokens

    def take(self, calls: int) -> None:
        """Take tokens for so many calls, also where there are fewer."""
        self._tokens = self.tokens - calls

    def wait(self, calls: float) -> float:
        """Seconds until there are so many, or until it is full."""
        calls, tokens = min(calls, self.size), self.tokens
        return 0.0 if tokens >= calls else (calls - tokens) / self.rate


def unlimited() -> Bucket:
    """Return a bucket without a limit."""
    return Bucket(math.inf, 0.0)


class Budgeted:
    """A back end that pays for each call. `calls`: how often each operation was used; `spent`: RPCs in all."""

    def __init__(self, backend: Backend, bucket: Bucket) -> None:
        self._backend, self.bucket = backend, bucket
        self.name, self.why = backend.name, backend.why
        self.prices = PRICES.get(backend.name, PRICES["pyslurm"])  # the dearest
        self.calls: Counter[str] = Counter()

    @property
    def spent(self) -> int:
        """The RPCs of all calls so far, at most."""
        return sum(self.prices[verb] * times for verb, times in self.calls.items())

    def _paid(self, verb: str) -> Backend:
        self.bucket.take(self.prices[verb])
        self.calls[verb] += 1
        return self._backend

    def version(self) -> str:
        """Return Slurm's version."""
        return self._paid("version").version()

    def booted(self) -> float:
        """Return the epoch second at which slurmctld was started, 0 where unknown."""
        return self._paid("booted").booted()

    def topology(self, name: str = "") -> str:
        """Return the output of `scontrol show topology`."""
        return self._paid("topology").topology(name)

    def load(self, uid: int) -> SlurmLoad:
        """Return the load of slurmctld."""
        return self._paid("load").load(uid)

    def snapshot(self) -> SlurmSnapshot:
        """Return all jobs and nodes."""
        return self._paid("snapshot").snapshot()

    def rules(self) -> SlurmRules:
        """Return Slurm's rules."""
        return self._paid("rules").rules()

    def job(self, job_id: str) -> SlurmJob:
        """Return one job."""
        return self._paid("job").job(job_id)

    def hold(self, job_id: str) -> None:
        """Hold a job."""
        self._paid("hold").hold(job_id)

    def release(self, job_id: str) -> None:
        """Lift a job's hold and its wait after a requeue."""
        self._paid("release").release(job_id)

    def lift(self, job_id: str) -> None:
        """Lift a job's hold."""
        self._paid("lift").lift(job_id)

    def begin_now(self, job_id: str) -> None:
        """Make a pending job eligible now."""
        self._paid("begin_now").begin_now(job_id)

    def pin(self, job_id: str, change: RequestChange) -> None:
        """Change a held job's request to the nodes of its start."""
        self._paid("pin").pin(job_id, change)

    def prioritize(self, job_id: str) -> None:
        """Give a released job the highest priority."""
        self._paid("prioritize").prioritize(job_id)

    def unpin(self, job_id: str, change: RequestChange) -> None:
        """Change a held job's request back."""
        self._paid("unpin").unpin(job_id, change)

    def signal(self, job_id: str, signal: str) -> None:
        """Send a signal to the batch shell of a running job."""
        self._paid("signal").signal(job_id, signal)

    def requeue(self, job_id: str) -> int:
        """Requeue a job; return the second of its run's end."""
        return self._paid("requeue").requeue(job_id)

    def requeue_together(self, job_ids: Sequence[str]) -> None:
        """Requeue several jobs."""
        self.bucket.take(self.prices["requeue"] * len(job_ids))
        self.calls["requeue"] += len(job_ids)
        self._backend.requeue_together(job_ids)

    def stated_gpus(self, job_id: str) -> tuple[StatedGpus, ...]:
        """Return the GPUs of a job's request."""
        return self._paid("stated_gpus").stated_gpus(job_id)

    def batch_script(self, job_id: str) -> bytes:
        """Return the batch script of a job."""
        return self._paid("batch_script").batch_script(job_id)

    def comments(self, records: Sequence[int]) -> Mapping[int, Comments]:
        """Return the comments of these records."""
        return self._paid("comments").comments(records)

    def set_comment(self, names: Sequence[str], field: CommentField, text: str) -> None:
        """Set a comment of several jobs."""
        self.bucket.take(self.prices["set_comment"] * len(names))
        self.calls["set_comment"] += len(names)
        self._backend.set_comment(names, field, text)

    def close(self) -> None:
        """End what the back end keeps open."""
        self._backend.close()
