"""The decision of mode assist: which running jobs are preempted, so that the jobs that Slurm ranks first start.

Slurm keeps its order and starts all jobs. For the first waiting job on each set of nodes, running jobs are preempted where all of
this holds:

  - it does not fit on what is free, or is being released: else Slurm starts it without a preemption
  - no GPUs have just been released for it: Slurm may be about to start it
  - Slurm's own rules admit it: its limits, licences and reservations
  - the preempted jobs are managed, can checkpoint, have reached their minimum run time, are of no higher priority tier, and are
    expected to run for twice as long as the beneficiary, and to need more service than the waiting jobs on average
    (preemption_gain.py)
  - with what they release the beneficiary fits, and without any one of them it does not
  - the wait that it is spared is longer than what they lose

Jobs are tried in the order of their expected remaining service (GPU-seconds), which for most is their attained service: those that
have received the most are preempted. For a beneficiary that is to be consolidated (its placement style), jobs are preempted that
together release the fewest nodes, where that costs no more and each of them is needed anyway. Once jobs release GPUs on nodes that
it would then have, the plan names these nodes. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.admit.quotas import QuotaUse, free_only
from tiresias.scheduler.assist.preemption_gain import PreemptionGain, RunEstimates
from tiresias.scheduler.assist.slurm_queue import SlurmHead, SlurmOrder, SlurmQueue, places
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.protection import is_protected
from tiresias.scheduler.evict.victims import VictimSearch
from tiresias.scheduler.idle_pools import unchanged
from tiresias.scheduler.model import Effect, Floats, Ints, JobState, Plan, Preempt, Snapshot, Start, Style
from tiresias.scheduler.place.free_capacity import Holdings, PlacementRequest, free
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.rank.standing import Standing
from tiresias.scheduler.reason_codes import Reason, ReasonCode


def assist(snapshot: Snapshot, queue: SlurmQueue, config: PolicyConfig) -> Plan:
    """Return the preemptions, with the reason and the expected gain of each; no job is started.

    `reserved` names the nodes of heads that are to be consolidated, and that fit on the fewest nodes once these are released.

    O(jobs log jobs + heads x placements).

    Args:
        snapshot: Jobs, nodes and allocations.
        queue: Slurm's order.
        config: For the texts of ranks; each head has its own.
    """
    quotas, effect = QuotaUse(snapshot.quotas), unchanged(snapshot.jobs)
    why, actions, reserved = _waiting_for_slurm(snapshot, queue), list[Preempt](), list[Start]()
    for head in queue.heads:
        search = _Assistance(snapshot, head, queue.mean_run)
        admitted = quotas.admit(head.row)
        found = search.victims() if admitted else ()
        why |= search.reasons(found)
        effect[list(found)] = Effect.PREEMPT
        actions += search.actions(found)
        reserved += search.nodes(found) if admitted else ()
    none = np.zeros(len(snapshot.jobs), np.int64)
    standing = Standing(snapshot, none, SlurmOrder(queue.order), config)
    return Plan(effect, none, places(queue.order), tuple(actions), reserved=tuple(reserved), why=why, standing=standing)


def _waiting_for_slurm(snapshot: Snapshot, queue: SlurmQueue) -> dict[int, Reason]:
    """Return the reason of each waiting job that Slurm admits, as if none of them were a head."""
    jobs = snapshot.jobs
    waiting = np.flatnonzero((jobs.state == JobState.WAITING) & jobs.eligible & ~free_only(jobs)).tolist()
    return {row: Reason(ReasonCode.SLURM_ORDER, queue.blocked_by.get(row, "")) for row in waiting}


class Victims(NamedTuple):
    """Jobs that may be preempted for a beneficiary.

    Attributes:
        rows: Their rows in the snapshot.
        gain: What their preemption is expected to gain.
    """

    rows: list[int]
    gain: PreemptionGain


class _Assistance:
    """The search for the victims of one beneficiary."""

    def __init__(self, snapshot: Snapshot, head: SlurmHead, mean_run: float) -> None:
        self._snapshot, self._head, self._jobs = snapshot, head, snapshot.jobs
        self._placer, self._holdings = Placer(snapshot), Holdings(snapshot)
        self._estimates = RunEstimates(snapshot.jobs, head.config, mean_run)
        self._kind, self._gpus = self._placer.kind(self._jobs.request[head.row]), int(self._jobs.gpus[head.row])
        releasing = np.flatnonzero(self._jobs.state == JobState.RELEASING)
        self._free: Floats = free(snapshot.nodes) + self._holdings.on_nodes(releasing)
        self._gain: PreemptionGain | None = None

    def victims(self) -> Sequence[int]:
        """Return the rows to preempt; () where none are, as `reasons` explains."""
        row = self._head.row
        if self._head.is_served or not self._may_benefit(row) or self._fits(np.empty(0, np.int64)):
            return ()
        chosen = self._usual(row)
        if chosen is None:
            return ()
        together = self._together(row)
        if together and together.gain.cost <= chosen.gain.cost:
            chosen = together
        self._gain = chosen.gain
        return chosen.rows if chosen.gain.is_positive else ()

    def _usual(self, row: int) -> Victims | None:
        """Return the jobs with the most service that are enough; None where none are."""
        found = self._search(self._kind).victims(self._candidates(row))
        return None if found is None else self._weighed(row, list(self._needed(found[0])))

    def _together(self, row: int) -> Victims | None:
        """Return jobs that release the fewest nodes for a job that is to be consolidated; None where others would be enough."""
        if not self._consolidates(row):
            return None
        kind = self._packed(row)
        found = self._search(kind).victims(self._candidates(row))
        if found is None or len(list(self._needed(found[0]))) < len(found[0]):
            return None
        return self._weighed(row, found[0])

    def _consolidates(self, row: int) -> bool:
        style = self._jobs.style
        return style is not None and bool(style[row] == Style.CONSOLIDATE)

    def _packed(self, row: int) -> PlacementRequest:
        return self._placer.kind(self._jobs.request[row], packed=True)

    def _weighed(self, row: int, victims: list[int]) -> Victims:
        return Victims(victims, self._estimates.gain(row, np.array(victims, np.int64), self._wait(row)))

    def actions(self, victims: Sequence[int]) -> Iterator[Preempt]:
        """Yield the preemptions."""
        for row in victims:
            yield Preempt(self._jobs.id[row], self._jobs.id[self._head.row])

    def nodes(self, victims: Sequence[int]) -> Iterator[Start]:
        """Yield where a job that is to be consolidated starts on the fewest nodes, with GPUs that are being released.

        None for a job whose owner names nodes. victims: rows of the jobs that are preempted from now on.
        """
        row, names = self._head.row, self._snapshot.nodes.name
        if not self._may_benefit(row) or not self._consolidates(row) or self._jobs.request[row].nodes:
            return
        kind, space = self._packed(row), self._placer.space
        if self._placer.place(kind, self._gpus, space(free(self._snapshot.nodes))) is None:
            released = self._free + self._holdings.on_nodes(np.array(victims, np.int64))
            for placement in filter(None, [self._placer.place(kind, self._gpus, space(released))]):
                yield Start(self._jobs.id[row], tuple((names[node], gpus) for node, gpus in placement))

    def reasons(self, victims: Sequence[int]) -> dict[int, Reason]:
        """Return the reason of the beneficiary and of its victims, by row."""
        ids, row, gain = tuple(self._jobs.id[each] for each in victims), self._head.row, self._gain
        if gain is None:
            return {row: Reason(ReasonCode.SLURM_HEAD)} if self._may_benefit(row) else {}
        code = ReasonCode.ASSISTED if victims else ReasonCode.ASSIST_COSTS
        found = {row: Reason(code, amount=round(gain.cost), seconds=gain.spared, jobs=ids)}
        preempted = Reason(ReasonCode.PREEMPTED_TO_ASSIST, self._jobs.id[row], round(gain.cost), gain.spared)
        return found | dict.fromkeys(victims, preempted)

    def _may_benefit(self, row: int) -> bool:
        jobs = self._jobs
        return bool(jobs.state[row] == JobState.WAITING and jobs.eligible[row] and not free_only(jobs)[row])

    def _search(self, kind: PlacementRequest) -> VictimSearch:
        return VictimSearch(self._placer, self._holdings, kind, self._gpus, self._free)

    def _fits(self, victims: Ints) -> bool:
        space = self._placer.space(self._free + self._holdings.on_nodes(victims))
        return self._placer.place(self._kind, self._gpus, space) is not None

    def _candidates(self, row: int) -> Ints:
        """Running jobs that may be preempted for the waiting job, the most expected remaining service first."""
        jobs = self._jobs
        may = (jobs.state == JobState.RUNNING) & jobs.movable & ~is_protected(self._snapshot, self._head.config)
        if jobs.priority_class is not None:
            may &= jobs.priority_class <= jobs.priority_class[row]
        rows = self._estimates.may_precede(row, np.flatnonzero(may))
        rows = self._estimates.outlasting(rows, self._head.queue, self._capacity())
        return rows[np.argsort(-self._estimates.left[rows] * self._holdings.gpus()[rows], kind="stable")]

    def _capacity(self) -> float:
        """GPUs of the nodes on which the waiting job may start."""
        return float(self._snapshot.nodes.gpus[self._kind.demand.allowed].sum())

    def _needed(self, victims: list[int]) -> Iterator[int]:
        """Yield the victims without which the job does not fit; the last ones are spared first."""
        left = list(victims)
        for row in reversed(victims):
            others = [other for other in left if other != row]
            if self._fits(np.array(others, np.int64)):
                left = others
        yield from left

    def _wait(self, row: int) -> float:
        """Return for how long the job is expected to wait without a preemption, seconds."""
        left = self._estimates.left
        running = np.flatnonzero(self._jobs.state == JobState.RUNNING)
        ends = running[np.argsort(left[running], kind="stable")]
        found = self._search(self._kind).victims(ends)
        return float(left[found[0]].max(initial=0.0)) if found else 0.0
