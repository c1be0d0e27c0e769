"""Stage rank: what a policy is.

A policy has one method, `rank`, which orders the jobs of a snapshot; all others have defaults. An `IncrementalPolicy` gives a sort
key for each job instead, by formulas of `elementwise.py`. Its order follows from the keys, and the simulator keeps its jobs sorted
from event to event, which is much faster.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.model import Bools, Floats, Ints, Jobs, Snapshot

SortKeys: TypeAlias = list[npt.NDArray[np.generic]]  # columns of shape (jobs,), the most significant first
_DIGITS = 18  # of whole numbers that fit into 64 bits


class Rows(Protocol):
    """What a policy sees of one job, or of many: the columns of `model.Jobs`."""

    @property
    def gpus(self) -> Values:
        """Requested GPUs; of a running job the GPUs that it holds."""

    @property
    def submit(self) -> Values:
        """Epoch second of the first submission."""

    @property
    def state(self) -> Values:
        """A number of `JobState`."""

    @property
    def attained(self) -> Values:
        """GPU-seconds since the last reset (section 3.2.2)."""

    @property
    def ran(self) -> Values:
        """Run time since the last reset, seconds (section 3.2.3)."""

    @property
    def waited(self) -> Values:
        """Waiting time since the last reset, seconds (section 3.2.3)."""

    @property
    def first_start(self) -> Values:
        """Epoch second of the first start; nan: it never ran."""

    @property
    def last_start(self) -> Values:
        """Epoch second of the newest start; nan: it never ran."""

    @property
    def preempted(self) -> Values:
        """Epoch second at which it last went back to waiting; nan: never."""

    @property
    def remaining(self) -> Values:
        """Seconds of work left; only the simulator has it."""

    @property
    def preemption_cost(self) -> Values:
        """Measured seconds that a preemption costs; nan: not known."""

    @property
    def claimed_remaining(self) -> Values:
        """Seconds of work left by the reports of its program; nan: no claim counts; None: no reports at all."""

    @property
    def claim_trust(self) -> Values:
        """Weight of the claims of its owner, 0 to 1."""

    @property
    def owner_excess(self) -> Values:
        """GPU-seconds that its owner used more than others, by shares; None: owners do not share."""


class Row:
    """One job for a policy's formulas: an attribute is the job's value in that column of `Jobs`."""

    def __init__(self, jobs: Jobs, row: int) -> None:
        self._jobs, self._row = jobs, row

    def __getattr__(self, column: str) -> Any:
        values = getattr(self._jobs, column)
        return None if values is None else values[self._row]


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The order of the jobs of a snapshot; arrays of shape (jobs,).

    Attributes:
        order: Rows, the most urgent first.
        queue: Index of the queue of each row, 0 the most urgent.
        promoted: Rows whose attained service and waiting time start anew (section 3.2.3).
    """

    order: Ints
    queue: Ints
    promoted: Bools

    @classmethod
    def of(cls, order: npt.ArrayLike) -> Ranking:
        """A ranking with one queue, in which no job is promoted."""
        rows = np.asarray(order, np.int64)
        return cls(rows, np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_))


class Ranks(Protocol):
    """All that a policy must have. An installed package may register any class with this method."""

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        """The order of all jobs of the snapshot."""


class Policy(ABC):
    """A policy with the optional parts, each with its default.

    Attributes:
        preempts: Running jobs compete too; otherwise they keep their GPUs.
        blocks: No job overtakes the first job that does not fit.
        spares: Running jobs are preempted only where it is worth the cost (`evict/cost_aware.py`).
        has_queues: Attained service moves a job from queue to queue at `PolicyConfig.thresholds`.
        refit_at: The number of completed jobs from which on `fitted` returns a new policy.
        release_rate: GPUs that running jobs are expected to release per second by ending, if the policy `spares` any: a job that
            waits for some of them is worth at least so long a wait (`evict/cost_aware.py`). inf: `worth` alone counts.
    """

    preempts: bool = True
    blocks: bool = False
    spares: bool = False
    has_queues: bool = False
    refit_at: float = math.inf
    release_rate: float = math.inf

    @abstractmethod
    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        """The order of all jobs of the snapshot."""

    def ranks_running_first(self, config: PolicyConfig) -> bool:
        """Whether a running job comes before waiting ones of its queue, and after those that started before it."""
        return False

    def promoted(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Whether the job's service and waiting time now start anew (section 3.2.3)."""
        return False

    def change(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """The next moment at which the order changes by the job alone, or it is promoted; inf for never."""
        return math.inf

    def next_change(self, job: Rows, now: float, config: PolicyConfig) -> str:
        """What happens to a waiting job at the moment that `change` returns, in words."""
        return "it is promoted"

    def permits_preemptions(self, job: Rows, now: float, config: PolicyConfig) -> bool:
        """Whether that change only permits to preempt lower-ranked running jobs: without such jobs nothing happens then."""
        return False

    def worth(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """What the start of a waiting job is worth, if the policy `spares` any, in the unit of `loss`; inf where it starves."""
        return jobs.gpus

    def loss(self, jobs: Rows, backlog: float, now: float, config: PolicyConfig) -> Values:
        """What the preemption of a running job costs, if the policy `spares` any: the starts for which it is preempted have to be
        worth as much together. `backlog`: waiting jobs for each GPU of the cluster."""
        return jobs.gpus

    def starves(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> Values:
        """Whether the job has waited so long that it goes before all others, whatever its owner used. `promoted`: as returned by
        the method of that name."""
        return False

    def drains(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Whether GPUs are kept free for a waiting job that does not fit (`evict/drain.py`)."""
        return False

    def turn(self, now: float, config: PolicyConfig) -> float:
        """The next moment at which the order is another one although no job's own change is due; inf for never."""
        return math.inf

    def fitted(self, completed: Completed, there: Rows, cluster: int = 0) -> Policy:
        """The policy that has learned from all completed jobs, and from those in the cluster of so many GPUs; 0: not known."""
        return self

    def queue_limits(self, config: PolicyConfig) -> tuple[float, ...]:
        """GPU-seconds at which the queues end; none without queues."""
        return config.thresholds if self.has_queues else ()

    def first_after(self, job: Rows, config: PolicyConfig) -> float:
        """Return the further seconds of waiting after which a job goes before all others, where there are no queues.

        0: it does now; inf: it never does.
        """
        return math.inf

    def higher_after(self, job: Rows, config: PolicyConfig) -> float:
        """Return the further seconds of waiting after which a job ranks higher, where there are no queues; inf: never."""
        return math.inf

    def discount(self, jobs: Rows, config: PolicyConfig) -> Values:
        """By what the time that a job has waited multiplies what its completion costs, where owners share (`fair_policy.py`)."""
        return 1.0

    def changes(self, snapshot: Snapshot, config: PolicyConfig) -> Floats:
        """`change` of each job, shape (jobs,)."""
        return _column(self.change(snapshot.jobs, snapshot.time, config), len(snapshot.jobs)).astype(np.float64)

    def standing(self, job: Rows, queue: int, now: float, config: PolicyConfig) -> str:
        """Why one job is ranked as it is, in words."""
        return f"Q{queue + 1}"


class IncrementalPolicy(Policy):
    """A policy that sorts by keys of each job. The simulator needs no snapshot for it.

    Attributes:
        queue_key: Place of the queue among the keys.
    """

    queue_key: int = 0

    @abstractmethod
    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Sort keys, the most significant first; one is the index of the queue, 0 the most urgent. Equal jobs are sorted by
        submit time and id. The keys of a waiting job may only change when it is promoted."""

    def keys_and_change(self, job: Rows, now: float, config: PolicyConfig) -> tuple[tuple[Values, ...], float]:
        """`keys` and `change` of one running job. A policy whose keys neither drift nor settle may have its own version, which
        computes both with fewer steps."""
        return self.keys(job, now, config, False), self.change(job, now, config)

    def cost(self, keys: tuple[Values, ...], config: PolicyConfig) -> Values:
        """GPU-seconds that the completion of a job is expected to cost, by its keys, where owners share (`fair_policy.py`)."""
        return 0.0

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        """Whether the keys of a running job change all the time, not only at the moments of `change`. Jobs that drift go before
        all others."""
        return False

    def settled(self, keys: tuple[Values, ...], config: PolicyConfig) -> Values:
        """Whether a running job of these keys that keeps its GPUs now keeps its keys too; else it has others from the next
        decision on."""
        return True

    def sort_keys(self, jobs: Jobs, now: float, config: PolicyConfig) -> tuple[SortKeys, Bools]:
        """Return the sort keys of jobs with the submit time as columns, and which jobs are promoted. Those of a job depend on its
        row alone."""
        promoted = _column(self.promoted(jobs, now, config), len(jobs)).astype(np.bool_)
        keys = [_column(key, len(jobs)) for key in self.keys(jobs, now, config, promoted)]
        return [*keys, jobs.submit], promoted

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        """O(jobs log jobs)."""
        keys, promoted = self.sort_keys(snapshot.jobs, snapshot.time, config)
        return Ranking(ordered(keys, snapshot.jobs.id), keys[self.queue_key].astype(np.int64), promoted)


def replaces(policy: Policy, method: str) -> bool:
    """Return whether the policy has its own version of an optional method. The default of the others need not be called."""
    default = getattr(Policy, method, None) or getattr(IncrementalPolicy, method)
    return getattr(type(policy), method) is not default


def _column(values: Values, jobs: int) -> npt.NDArray[np.generic]:
    """What is the same for all jobs is a single number in a policy's formulas."""
    if isinstance(values, np.ndarray) and values.shape == (jobs,):
        return values
    return np.broadcast_to(np.asarray(values), (jobs,))


def ordered(keys: Sequence[npt.NDArray[np.generic]], ids: Sequence[str]) -> Ints:
    """Rows by the keys, the most significant first; the id breaks ties.

    O(n log n). The keys after the first one that is no whole number are read for rows that are equal up to there, and ids for rows
    that are equal in all keys.
    """
    differ = [key for key in keys if len(key) and key.strides != (0,)]  # the others have one value for all jobs
    whole = next((at for at, key in enumerate(differ) if key.dtype.kind not in "iu"), len(differ))
    head, rest = [*_as_one(differ[:whole]), *differ[whole : whole + 1]], differ[whole + 1 :]
    order = np.lexsort(tuple(reversed(head))) if head else np.arange(len(ids))
    tied = _tied(head, order[:-1], order[1:])
    if rest and tied.any():
        twins, group = _twins(tied)
        rows = order[twins]
        order[twins] = rows[np.lexsort((*(key[rows] for key in rest[::-1]), group))]
        pairs = np.flatnonzero(tied)
        tied[pairs] = _tied(rest, order[pairs], order[pairs + 1])
    if tied.any():
        twins, group = _twins(tied)
        rows = order[twins]
        order[twins] = rows[_by_id([ids[row] for row in rows.tolist()], group)]
    return order


def _by_id(ids: Sequence[str], group: Ints) -> Ints:
    """Return the places of jobs by their groups, then by `natural`. Different whole numbers are compared as such, in numpy."""
    lengths = list(map(len, ids))
    if min(lengths) > 0 and max(lengths) <= _DIGITS and "".join(ids).isdecimal():
        numbers = np.array(list(map(int, ids)), np.int64)
        if len(np.unique(numbers)) == len(ids):
            return np.lexsort((numbers, group))
    names = zip(group.tolist(), map(natural, ids), range(len(ids)), strict=True)
    return np.array([place for _, _, place in sorted(names)], np.int64)


def _as_one(keys: SortKeys) -> SortKeys:
    """Return one key in place of keys that are whole numbers, where it is small: numpy sorts small integers in linear time."""
    if len(keys) < 2 or not len(keys[0]):
        return keys
    least = [int(key.min()) for key in keys]
    sizes = [int(key.max()) - low + 1 for key, low in zip(keys, least, strict=True)]
    if math.prod(sizes) >= np.iinfo(np.int16).max:
        return keys
    found = np.zeros(len(keys[0]), np.int16)
    for key, low, size in zip(keys, least, sizes, strict=True):
        found = found * np.int16(size) + (key - low).astype(np.int16)
    return [found]


def _tied(keys: SortKeys, rows: Ints, others: Ints) -> Bools:
    """Return which rows are equal to the others in all keys."""
    found = np.ones(len(rows), np.bool_)
    for key in keys:
        found &= key[rows] == key[others]
    return found


def _twins(tied: Bools) -> tuple[Ints, Ints]:
    """Return the places that are equal to a neighbour, and the number of the group of each. `tied`: of each place and the next."""
    twins = np.flatnonzero(np.concatenate((tied, [False])) | np.concatenate(([False], tied)))
    return twins, np.cumsum(np.concatenate(([True], ~tied)))[twins]


def natural(job_id: str) -> tuple[tuple[str | int, ...], str]:
    """Return a sort key with 9 before 10, and task 12_3 before 12_10; the text itself is its end, so that 01 and 1 differ."""
    if job_id.isdecimal():
        return ("", int(job_id), ""), job_id
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", job_id)), job_id
