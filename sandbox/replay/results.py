"""What a replay leaves behind, read back: each job's runs as its trainer wrote them, and its runs as Slurm logged them.

Everything here is in seconds of this machine's clock; `report` turns them into seconds of the trace.
"""

from __future__ import annotations

import calendar
import itertools
import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiresias.sandbox.trainer_state import TrainingState
from tiresias.simulator.trace import TraceJob

NEVER = math.nan


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job. end and last_step: nan and -1 for a run that was killed before it could say."""

    restart: int
    start: float
    first_step: int
    redone: int  # iterations that the run before had done and that were lost with it
    nodes: int
    slowdown: float
    end: float = NEVER
    last_step: int = -1


@dataclass(frozen=True, slots=True)
class JobResult:
    """A replayed job. submit, finish: epoch seconds; finish is nan for a job that never finished."""

    job: TraceJob
    id: str
    submit: float
    runs: tuple[Run, ...]
    finish: float
    steps: int
    curve: str

    @property
    def finished(self) -> bool:
        return not math.isnan(self.finish)

    @property
    def jct(self) -> float:
        return self.finish - self.submit

    @property
    def training(self) -> float:
        """Seconds in which its trainer ran; killed runs count to the start of the next one at most, hence not at all."""
        return sum(run.end - run.start for run in self.runs if not math.isnan(run.end))

    @property
    def overlapping(self) -> bool:
        """Two of its runs were there at once."""
        pairs = itertools.pairwise(self.runs)
        return any(not math.isnan(one.end) and two.start < one.end for one, two in pairs)

    @property
    def curve_is_right(self) -> bool:
        """Its losses are those of a training that was never interrupted."""
        state = TrainingState.fresh(self.job.job_id)
        state.advance(self.steps)
        return self.finished and self.curve == state.curve_text


@dataclass(slots=True)
class JobLog:
    """Follows RESULTS/JOB.jsonl of a trainer as it grows."""

    path: Path
    runs: list[Run] = field(default_factory=list)
    finish: float = NEVER
    steps: int = 0
    curve: str = ""
    _read: int = 0

    @property
    def finished(self) -> bool:
        return not math.isnan(self.finish)

    @property
    def running(self) -> bool:
        return bool(self.runs) and math.isnan(self.runs[-1].end)

    def follow(self) -> None:
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
            names = ("restart", "first_step", "redone", "nodes", "slowdown")
            self.runs.append(Run(start=event["time"], **{name: event[name] for name in names}))
            return
        last = self.runs.pop()
        self.runs.append(
            Run(
                last.restart,
                last.start,
                last.first_step,
                last.redone,
                last.nodes,
                last.slowdown,
                event["time"],
                event["step"],
            )
        )
        if event["event"] == "finish":
            self.finish, self.steps, self.curve = event["time"], event["steps"], event["curve"]


@dataclass(frozen=True, slots=True)
class SlurmRun:
    """A line of Slurm's job completion log: whole seconds."""

    start: int
    end: int
    state: str


def slurm_runs(log: Path) -> dict[str, list[SlurmRun]]:
    """All runs in a jobcomp/filetxt log by job id, in the order of their end (slurm.conf(5), JobCompType)."""
    runs: dict[str, list[SlurmRun]] = {}
    for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if fields.get("StartTime", "Unknown") != "Unknown":
            run = SlurmRun(_epoch(fields["StartTime"]), _epoch(fields["EndTime"]), fields["JobState"])
            runs.setdefault(fields["JobId"], []).append(run)
    return runs


def _epoch(text: str) -> int:
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
