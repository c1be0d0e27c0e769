"""Results of a replay, read from files: each job's runs as its trainer recorded them, and as Slurm logged them.

All times are seconds of this machine's clock; replay_report.py converts them to seconds of the trace.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tiresias.sandbox import completion_log
from tiresias.sandbox.trainer_state import TrainerState
from tiresias.simulator.trace import TraceJob

NEVER = math.nan


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """Numbers of jobs."""

    jobs: int
    submitted: int
    running: int
    finished: int

    @property
    def waiting(self) -> int:
        """Submitted jobs that neither run nor have finished."""
        return self.submitted - self.running - self.finished


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job; end and last_step are nan and -1 for a killed run; gpus: 0 for those that the job requests."""

    restart: int
    start: float
    first_step: int
    redone: int  # iterations of the previous run that were lost
    nodes: int
    slowdown: float
    end: float = NEVER
    last_step: int = -1
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class JobResult:
    """A replayed job; submit, finish: epoch seconds; finish is nan for a job that never finished."""

    job: TraceJob
    id: str
    submit: float
    runs: tuple[JobRun, ...]
    finish: float
    steps: int
    curve: str

    @property
    def finished(self) -> bool:
        """Whether the job has finished."""
        return not math.isnan(self.finish)

    @property
    def jct(self) -> float:
        """Job completion time in seconds."""
        return self.finish - self.submit

    @property
    def training(self) -> float:
        """Seconds in which the trainer ran, without killed runs, whose end is unknown."""
        return sum(run.end - run.start for run in self.runs if not math.isnan(run.end))

    @property
    def gpu_seconds(self) -> float:
        """GPU-seconds in which the trainer ran, as `training`."""
        ended = [run for run in self.runs if not math.isnan(run.end)]
        return sum((run.gpus or self.job.num_gpus) * (run.end - run.start) for run in ended)

    @property
    def overlapping(self) -> bool:
        """Whether two of the job's runs overlapped."""
        pairs = itertools.pairwise(self.runs)
        return any(not math.isnan(one.end) and two.start < one.end for one, two in pairs)

    @property
    def curve_is_right(self) -> bool:
        """Whether the losses are those of an uninterrupted training."""
        state = TrainerState.fresh(self.job.job_id)
        state.advance(self.steps)
        return self.finished and self.curve == state.curve_text


@dataclass(slots=True)
class JobLog:
    """Follows a trainer's RESULTS/JOB.jsonl while it grows."""

    path: Path
    runs: list[JobRun] = field(default_factory=list)
    finish: float = NEVER
    steps: int = 0
    curve: str = ""
    _read: int = 0

    @property
    def finished(self) -> bool:
        """Whether the job has finished."""
        return not math.isnan(self.finish)

    @property
    def running(self) -> bool:
        """Whether a run is in progress."""
        return bool(self.runs) and math.isnan(self.runs[-1].end)

    def follow(self) -> None:
        """Read new events."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read)
                text = file.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._event(json.loads(line))

    def _event(self, event: dict[str, Any]) -> None:
        if event["event"] == "start":
            names = ("restart", "first_step", "redone", "nodes", "slowdown", "gpus")
            self.runs.append(JobRun(start=event["time"], **{name: event[name] for name in names}))
            return
        last = self.runs.pop()
        self.runs.append(replace(last, end=event["time"], last_step=event["step"]))
        if event["event"] == "finish":
            self.finish, self.steps, self.curve = event["time"], event["steps"], event["curve"]


@dataclass(frozen=True, slots=True)
class SlurmRun:
    """A line of Slurm's job completion log, in whole seconds."""

    start: int
    end: int
    state: str


def slurm_runs(log: Path) -> dict[str, list[SlurmRun]]:
    """Return all runs in a jobcomp/filetxt log by job id, in the order of their ends (slurm.conf(5), JobCompType)."""
    runs: dict[str, list[SlurmRun]] = {}
    for fields in completion_log.records(log):
        if fields.get("StartTime", "Unknown") != "Unknown":
            start, end = (completion_log.epoch(fields[name]) for name in ("StartTime", "EndTime"))
            run = SlurmRun(start, end, fields["JobState"])
            runs.setdefault(fields["JobId"], []).append(run)
    return runs
