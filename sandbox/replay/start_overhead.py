"""What starts cost in a replay, real seconds: from the moment at which GPUs are given to a job to the first line of its program.

With the controller that moment is its decision, or the release of the GPUs where the job waits for the jobs that are preempted for
it. Under unmodified Slurm it is the launch of the batch script, as slurmd logs it: slurmctld does not log its decision.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from calendar import timegm
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import strptime
from typing import NamedTuple

from tiresias.sandbox.replay.replay_results import JobResult
from tiresias.slurm_plugin.state.journal_rows import Decision

Moments = Mapping[str, Sequence[float]]  # by Slurm's job id, ascending

_LAUNCH = re.compile(r"^\[([\dT:-]+)\.(\d{3})\] Launching batch (?:JobId=|job )(\d+)", re.MULTILINE)
_BENEFICIARY = re.compile(r"for job ([^\s;]+)")


class StartOverheads(NamedTuple):
    """Seconds of each start.

    Attributes:
        first: Of first runs.
        restarts: Of later runs; the program has loaded its checkpoint by its first line.
    """

    first: list[float]
    restarts: list[float]


def measured(results: Iterable[JobResult], given: Moments) -> StartOverheads:
    """Return the overheads of all runs. given: the moments at which each job got GPUs.

    A run that began before its GPUs were known to be free is not counted: the preemption counts that time.
    """
    found = StartOverheads([], [])
    for result in results:
        moments, before = given.get(result.id, ()), 0
        for number, run in enumerate(result.runs):
            first = bisect_right(moments, run.start)
            if first > before:
                (found.restarts if number else found.first).append(run.start - moments[first - 1])
            before = max(first, bisect_right(moments, run.end)) if run.end == run.end else first
    return found


def given_by_controller(decisions: Iterable[Decision]) -> Moments:
    """Return when the controller gave GPUs to each job. decisions: oldest first."""
    given: dict[str, list[float]] = defaultdict(list)
    beneficiary: dict[str, str] = {}
    for decision in decisions:
        if decision.action in ("preempt", "resize") and (named := _BENEFICIARY.search(decision.why)):
            beneficiary[decision.id] = named[1]
        elif decision.action == "parked" and (job := beneficiary.pop(decision.id, None)) and given[job]:
            given[job][-1] = max(given[job][-1], decision.time)
        elif decision.action == "start":
            given[decision.id].append(decision.time)
    return given


def launched_by_slurmd(logs: Iterable[Path]) -> Moments:
    """Return when slurmd launched the batch script of each job, from the logs of all nodes in UTC with milliseconds."""
    launched: dict[str, list[float]] = defaultdict(list)
    for log in logs:
        for second, thousandths, job in _LAUNCH.findall(log.read_text(errors="replace")):
            moment = timegm(strptime(second, "%Y-%m-%dT%H:%M:%S")) + int(thousandths) / 1000.0
            launched[job].append(moment)
    return {job: sorted(moments) for job, moments in launched.items()}
