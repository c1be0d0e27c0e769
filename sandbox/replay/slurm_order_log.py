"""Slurm's order during a replay: samples of the waiting jobs, and the logs of submissions, starts and preemptions.

A sample is taken once a second inside the cluster (SAMPLER): the waiting jobs with Slurm's reason and priority, and the moments
before and after the reading. slurmctld logs the starts of its main scheduler; slurmd logs all. A start that only slurmd logs is one
of the backfill scheduler, which has no line in the log at any level (26.05); their number is compared with that of sdiag.
"""

from __future__ import annotations

import calendar
import itertools
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tiresias.sandbox.replay.start_overhead import Moments

SAMPLER = (
    'while :; do date +%s.%N; squeue --noheader --states=PD --format="%i|%r|%Q|%V" || echo failed; date +%s.%N; echo; '
    "sleep 1; done"
)
# Reasons of jobs that Slurm starts in their turn. The last two: an earlier job of another partition waits for these nodes.
IN_TURN = re.compile(
    r"Resources|Priority|None|ReqNodeNotAvail.*|Nodes required for job are DOWN, DRAINED or reserved.*"
)
_STAMP = r"^\[([\dT:-]+\.\d{3})\] "
_SUBMITTED = re.compile(_STAMP + r"_slurm_rpc_submit_batch_job: JobId=(\d+) .*?InitPrio=(\d+)", re.MULTILINE)
_STARTED = re.compile(_STAMP + r"sched: Allocate JobId=(\d+)", re.MULTILINE)
_ENDED = re.compile(_STAMP + r"(?:_job_complete: JobId=(\d+) done|Requeuing JobId=(\d+))", re.MULTILINE)
_REQUEUED = re.compile(_STAMP + r"Requeuing JobId=(\d+)", re.MULTILINE)
_PREEMPTED = re.compile(
    _STAMP + r"preempted JobId=(\d+) has been (\w+) to reclaim resources for JobId=(\d+)", re.MULTILINE
)

Rank = tuple[float, float, int]  # ascending in Slurm's order: -priority, submission, id


class QueueSample(NamedTuple):
    """The waiting jobs at one moment.

    Attributes:
        begin: Epoch second before they were read.
        end: Epoch second afterwards.
        ranks: By Slurm's id, the rank of each job that Slurm starts in its turn.
    """

    begin: float
    end: float
    ranks: dict[str, Rank]


class LoggedStart(NamedTuple):
    """A start; by_backfill: made by the backfill scheduler, else by the main one."""

    time: float
    job: str
    by_backfill: bool


class LoggedPreemption(NamedTuple):
    """A preemption by Slurm itself in slurmctld's log; done: requeued or suspended."""

    time: float
    job: str
    done: str
    beneficiary: str


class SlurmctldLog(NamedTuple):
    """What slurmctld logged, each list in the order of time.

    Attributes:
        submitted: By id, the rank that each job had at its submission.
        starts: Starts of jobs.
        requeued: Moments of requeues, with the job's id.
        preemptions: Preemptions by Slurm itself.
        ended: Moments at which runs ended, with the job's id; the GPUs are free once the Epilog has ended too.
    """

    submitted: dict[str, Rank]
    starts: list[LoggedStart]
    requeued: list[tuple[float, str]]
    preemptions: list[LoggedPreemption]
    ended: list[tuple[float, str]]

    @classmethod
    def parsed(cls, text: str, launched: Moments) -> SlurmctldLog:
        """Return the events.

        Args:
            text: Of slurmctld's log, in UTC with milliseconds.
            launched: The moments at which slurmd launched each job.
        """
        submitted = {job: (-float(rank), _epoch(at), int(job)) for at, job, rank in _SUBMITTED.findall(text)}
        allocated = [(job, _epoch(at)) for at, job in _STARTED.findall(text)]
        requeued = [(_epoch(at), job) for at, job in _REQUEUED.findall(text)]
        preemptions = [LoggedPreemption(_epoch(at), *rest) for at, *rest in _PREEMPTED.findall(text)]
        ended = [(_epoch(at), job or again) for at, job, again in _ENDED.findall(text)]
        return cls(submitted, sorted(_starts(allocated, launched)), requeued, preemptions, ended)


def read_samples(file: Path) -> list[QueueSample]:
    """Return the samples that SAMPLER wrote, without incomplete ones and those that Slurm did not answer."""
    blocks = file.read_text(errors="replace").split("\n\n") if file.exists() else []
    return list(_parsed(block.splitlines() for block in blocks))


def _parsed(blocks: Iterable[Sequence[str]]) -> Iterable[QueueSample]:
    for lines in blocks:
        if len(lines) >= 2 and "failed" not in lines and "|" not in lines[0] + lines[-1]:
            rows = [line.split("|") for line in lines[1:-1]]
            ranks = {job: _rank(job, priority, since) for job, why, priority, since in rows if IN_TURN.fullmatch(why)}
            yield QueueSample(float(lines[0]), float(lines[-1]), ranks)


def _rank(job: str, priority: str, since: str) -> Rank:
    return -float(priority), _epoch(since), int(job)


def _starts(allocated: Sequence[tuple[str, float]], launched: Moments) -> Iterator[LoggedStart]:
    """Yield the starts: at the moment of the main scheduler where it made the start, else at that of the launch."""
    by_main: dict[str, list[float]] = {}
    for job, at in allocated:
        by_main.setdefault(job, []).append(at)
    for job, moments in launched.items():
        for before, launch in itertools.pairwise((0.0, *moments)):
            made = next((at for at in by_main.get(job, ()) if before < at <= launch), None)
            yield LoggedStart(launch if made is None else made, job, made is None)


def backfilled(sdiag: str) -> int:
    """Return the number of jobs that the backfill scheduler has started since the start of slurmctld, by sdiag."""
    found = re.search(r"Total backfilled jobs \(since last slurm start\): (\d+)", sdiag)
    return int(found[1]) if found else 0


def _epoch(text: str) -> float:
    seconds, _, rest = text.partition(".")
    return calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) + int(rest or 0) / 1000.0
