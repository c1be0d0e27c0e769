"""What each preemption in the journal was good for.

redone   a run that the controller requeued after the program had parked, before the deadline, lost steps
in_vain  a run that was preempted for a job that did not start within REACH seconds, though nothing befell that job meanwhile

Judged are those in whose time nothing happened that explains it (windows.py); their number is reported, too.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.windows import Windows
from tiresias.sandbox.replay.replay_results import JobResult, JobRun

REACH = 30.0  # seconds from the decision to the start of the job that it was made for
BEFORE = 10.0  # seconds: a change that the controller may not have seen when it decided


@dataclass(frozen=True, slots=True)
class Requeue:
    """The controller ends a run. seconds: since it decided to, by its own clock. before: the step that led to it."""

    time: float
    job: str
    restart: int
    seconds: float
    before: str = ""


@dataclass(frozen=True, slots=True)
class Victim:
    """A preempted run; beneficiary: the Slurm id of the job that its GPUs were for."""

    job: str
    beneficiary: str
    began: float


def requeues(log: Path) -> list[Requeue]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [Requeue(**json.loads(line)) for line in lines]


def victims(journal: Path) -> list[Victim]:
    kinds = "kind in ('preempt', 'resize') and beneficiary != ''"
    words = f"select id, beneficiary, began from intent where {kinds} and outcome like 'parked%'"
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as db:
        return [Victim(*row) for row in db.execute(words)]


def redone(
    found: Sequence[Requeue], deadline: float, results: Mapping[str, JobResult], name: Callable[[str, float], str]
) -> list[str]:
    """Of runs that had parked, or that the controller requeued before the deadline: until then it does so for parked ones alone.

    A run that is being removed already (`drain`) ended by itself, as by a failure of its node: a victim of a group then.
    """
    broken = []
    for one in found:
        job = name(one.job, one.time)
        result = results.get(job) or results.get(f"{job}_{one.job.rpartition('_')[2]}")  # a task of an array
        after = _next_run(result, one.time) if result else None
        controlled = one.before == "parked" or (one.seconds < deadline and one.before != "drain")
        if after and after.redone and controlled:
            broken.append(f"{result.id if result else ''}: {after.redone} steps were done again after {one}")
    return broken


def _next_run(result: JobResult, moment: float) -> JobRun | None:
    return next((run for run in result.runs if run.start > moment), None)


def in_vain(
    found: Sequence[Victim],
    starts: Mapping[tuple[str, str], Sequence[float]],
    name: Callable[[str, float], str],
    windows: Windows,
    owners: Mapping[str, str],
) -> tuple[list[str], int]:
    """starts: of each run in Slurm's log, by job id and name. owners: users by name of job. Returns also how many were judged."""
    broken, judged = [], 0
    for one in found:
        job = name(one.beneficiary, one.began)
        about = (job, owners.get(job, ""), one.beneficiary)
        if not job or windows.touch(one.began - BEFORE, one.began + REACH, about):
            continue
        judged += 1
        if not any(one.began - 1 <= start <= one.began + REACH for start in starts.get((one.beneficiary, job), ())):
            broken.append(f"{job} ({one.beneficiary}) did not start within {REACH:g} s: {one}")
    return broken, judged
