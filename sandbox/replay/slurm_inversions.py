"""Whether Slurm's order was kept in a replay: inversions of it, and those that nothing explains. Pure.

Slurm's order is that of squeue: priority, then submission, among the waiting jobs that nothing but resources and earlier jobs keeps
waiting (slurm_order_log.py). It is sampled once a second. One job ranks before another one at a moment if it does in the last
sample before that moment, and waits with a rank before it in the first sample after it as well.

An inversion is a start of a job while a job that ranks before it waits. It is explained by

  backfill     the backfill scheduler made the start, as only slurmd logs it: by the time limits it delays no job that ranks before
  preemption   Slurm itself preempted jobs for it (PreemptType), by slurmctld's log

Mode assist could add inversions in two ways; each occurrence counts as unexplained:

  - a job was preempted for a beneficiary while another job ranked before that, in all samples of the SETTLED_S before
  - a job started, by backfill too, while GPUs had been released for a beneficiary that ranked first of all waiting jobs and that
    fitted on the free GPUs, more than STARTING_S before the beneficiary started or was given up

A preemption is in vain where Slurm does not start the beneficiary; that is counted apart. It happens where a job with a higher rank
arrives meanwhile.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tiresias.sandbox.replay.slurm_order_log import LoggedStart, QueueSample, Rank, SlurmctldLog
from tiresias.slurm_plugin.state.journal_rows import Decision

BENEFICIARY = re.compile(r"for job (\S+), which is first in Slurm's order")
IN_VAIN = "Slurm did not start job"
SETTLED_S = 10.0  # a decision is about a snapshot that was taken before it, by a cycle's length
RELEASING_S = 2.0  # from the end of a run to free GPUs: the Epilog
STARTING_S = 2.0  # from the requeue of the preempted jobs to the start of the beneficiary
PREEMPTING_S = 60.0  # from a preemption by Slurm to the start for which it was made


NO_GPUS: Mapping[str, int] = {}


class Release(NamedTuple):
    """GPUs that were released for a beneficiary of mode assist.

    Attributes:
        beneficiary: Slurm's id of the job.
        begin: When the last of the preempted jobs was requeued.
        end: When the beneficiary started, or was given up.
    """

    beneficiary: str
    begin: float
    end: float


class SlurmOrderJudge:
    """Compares starts with Slurm's order.

    Args:
        samples: Of the queue, in the order of time.
        log: Of slurmctld.
        decisions: Of the journal, oldest first; none without a controller.
        gpus: Of each job, by Slurm's id.
        total: GPUs of the cluster.
    """

    def __init__(
        self,
        samples: Sequence[QueueSample],
        log: SlurmctldLog,
        decisions: Sequence[Decision] = (),
        gpus: Mapping[str, int] = NO_GPUS,
        total: int = 0,
    ) -> None:
        self._samples, self._log, self._decisions, self._gpus, self._total = samples, log, decisions, gpus, total
        self._begins = [sample.begin for sample in samples]
        self._ends = [sample.end for sample in samples]

    def count(self) -> dict[str, float]:
        """Return the numbers of inversions by their explanation, and of samples, with the longest time between two of them."""
        inverted = list(self._inverted())
        backfilled = sum(start.by_backfill for start in inverted)
        gaps = [after.begin - before.end for before, after in zip(self._samples, self._samples[1:], strict=False)]
        return {
            "inversions": len(inverted),
            "backfill_inversions": backfilled,
            "unexplained_inversions": sum(1 for _ in self.unexplained()),
            "preemptions_in_vain": sum(one.action == "parked" and IN_VAIN in one.why for one in self._decisions),
            "starts_by_slurm": len(self._log.starts),
            "backfilled": sum(start.by_backfill for start in self._log.starts),
            "starts_of_unknown_rank": sum(self._rank(start) is None for start in self._log.starts),
            "order_samples": len(self._samples),
            "longest_gap": max(gaps, default=0.0),
        }

    def unexplained(self) -> Iterator[str]:
        """Yield a line for each inversion that nothing explains."""
        for start in self._inverted():
            if not start.by_backfill and not self._is_preemptor(start):
                yield f"job {start.job} starts before job {self._overtaken(start)[0]}"
        for one in self._decisions:
            if one.action == "preempt" and (named := BENEFICIARY.search(one.why)):
                yield from self._not_first(named[1], one.time)
        for release in self._releases():
            yield from self._taken(release)

    def _inverted(self) -> Iterator[LoggedStart]:
        return (start for start in self._log.starts if self._overtaken(start))

    def _overtaken(self, start: LoggedStart) -> list[str]:
        """Return the jobs that wait in their turn before and after a start, and rank before the started job."""
        before, own = self._before(start.time), self._rank(start)
        return self._earlier(own, before, self._after(start.time)) if own else []

    def _rank(self, start: LoggedStart) -> Rank | None:
        """Return the rank of a started job: in the last sample before, or at its submission after that; None if unknown."""
        row = bisect_left(self._ends, start.time) - 1
        submitted = self._log.submitted.get(start.job)
        is_new = submitted is not None and (row < 0 or submitted[1] >= self._begins[row])
        return self._before(start.time).get(start.job) or (submitted if is_new else None)

    def _not_first(self, beneficiary: str, now: float) -> Iterator[str]:
        rows = slice(bisect_left(self._ends, now - SETTLED_S), bisect_left(self._begins, now) + 1)
        ranks = [sample.ranks for sample in self._samples[rows]]
        own = next((each[beneficiary] for each in ranks if beneficiary in each), None)
        if own is None:
            return
        for name in ranks[0]:
            if all(name in each and each[name] < each.get(beneficiary, own) for each in ranks):
                yield f"job {name} waits before job {beneficiary}, for which a job is preempted"

    def _taken(self, release: Release) -> Iterator[str]:
        for start in self._log.starts:
            in_time = release.begin < start.time < release.end - STARTING_S
            is_other = in_time and start.job != release.beneficiary
            is_first = is_other and self._overtaken(start)[:1] == [release.beneficiary]
            if is_first and self._gpus.get(release.beneficiary, 0) <= self._free(start.time):
                yield f"job {start.job} starts on GPUs that were released for job {release.beneficiary}"

    def _free(self, now: float) -> int:
        """Return the GPUs that no run holds just before this moment."""
        starts: dict[str, float] = {one.job: one.time for one in self._log.starts if one.time < now}
        ends: dict[str, float] = {job: at for at, job in self._log.ended if at < now - RELEASING_S}
        return self._total - sum(self._gpus.get(job, 0) for job, at in starts.items() if ends.get(job, -math.inf) < at)

    def _releases(self) -> Iterator[Release]:
        """Yield the releases of GPUs for beneficiaries; those of one beneficiary that are given up are one each."""
        last: dict[tuple[str, float], float] = {}
        for one in self._decisions:
            if one.action == "preempt" and (named := BENEFICIARY.search(one.why)):
                requeue = next((at for at, job in self._log.requeued if job == one.id and at > one.time), None)
                end = self._end(one, named[1])
                if requeue is not None and requeue < end:
                    last[named[1], end] = max(requeue, last.get((named[1], end), requeue))
        return (Release(job, begin, end) for (job, end), begin in last.items())

    def _end(self, decision: Decision, beneficiary: str) -> float:
        """Return when the beneficiary started, or the preempted job was released without that."""
        starts = (each.time for each in self._log.starts if each.job == beneficiary and each.time > decision.time)
        parked = (
            one.time
            for one in self._decisions
            if one.id == decision.id and one.action == "parked" and one.time > decision.time
        )
        return min(next(starts, math.inf), next(parked, math.inf))

    def _is_preemptor(self, start: LoggedStart) -> bool:
        return any(
            each.beneficiary == start.job and start.time - PREEMPTING_S <= each.time <= start.time
            for each in self._log.preemptions
        )

    @staticmethod
    def _earlier(own: Rank, before: Mapping[str, Rank], after: Mapping[str, Rank]) -> list[str]:
        """Return the jobs with a rank before this one in both samples, in Slurm's order."""
        found = [name for name, rank in before.items() if rank < own and after.get(name, own) < own]
        return sorted(found, key=lambda name: before[name])

    def _before(self, now: float) -> Mapping[str, Rank]:
        """Return the ranks in the last sample that ended before this moment."""
        row = bisect_left(self._ends, now) - 1
        return self._samples[row].ranks if row >= 0 else {}

    def _after(self, now: float) -> Mapping[str, Rank]:
        """Return the ranks in the first sample that began after this moment."""
        row = bisect_left(self._begins, now)
        return self._samples[row].ranks if row < len(self._samples) else {}
