"""Answers to `{"op": "explain"}`: one job with its runs, decisions and Slurm's facts, or the tasks of an array in groups."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiresias.errors import TiresiasError
from tiresias.scheduler.forecast.start_forecast import ForecastStep, start_forecast
from tiresias.scheduler.forecast.start_time_bound import StartTimeBound
from tiresias.scheduler.model import Action
from tiresias.scheduler.reasons import blocked
from tiresias.slurm_plugin.backends.protocol import SlurmJob
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.comments.start_times import notes, starts_of
from tiresias.slurm_plugin.sockets.array_tasks import MAX_TASKS, chosen, grouped, matching
from tiresias.slurm_plugin.sockets.history_pages import EVER, HistoryPages, rounded, run_of, unreadable
from tiresias.slurm_plugin.sockets.privacy import Privacy
from tiresias.slurm_plugin.sockets.slurm_facts import Index, dependencies, named, slurm_facts
from tiresias.slurm_plugin.state.journal import Decision, JobRow
from tiresias.slurm_plugin.state.usage import usage

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """One request. `wanted`: the id as given; `uid`: of the user; `shown`: the published jobs that the user may see, by id."""

    wanted: str
    uid: int
    newest: Publication
    shown: Mapping[str, Mapping[str, Any]]

    @property
    def jobs(self) -> tuple[SlurmJob, ...]:
        return self.newest.slurm.jobs


class Explanations:
    """Lives in the socket's thread."""

    def __init__(self, journal: Path, past: HistoryPages, privacy: Privacy) -> None:
        self._journal, self._past, self._privacy = journal, past, privacy

    def answer(self, request: ExplainRequest) -> dict[str, Any]:
        """One job, or the tasks of an array in groups. Raises TiresiasError."""
        try:
            ids = self._ids(request)
            if len(ids) == 1:
                return self._one(ids[0], request)
            return self._array(ids, request)
        except sqlite3.Error as error:
            raise unreadable(self._journal, error) from None

    def _ids(self, request: ExplainRequest) -> list[str]:
        """Of the jobs in the newest snapshot, and of the tasks that ended before."""
        name, tasks = chosen(request.wanted)
        live = [job.id for job in named(name, request.jobs)]
        if len(live) == 1 and tasks is None:
            return live
        found = matching(request.wanted, [*live, *self._past.history.ids_of(name)])
        if not found:
            raise _unknown(request.wanted)
        return found

    def _array(self, ids: Sequence[str], request: ExplainRequest) -> dict[str, Any]:
        """Tasks that the controller has not seen are left out."""
        found, problem = {}, _unknown(request.wanted)
        index = Index.of(request.newest)
        for job_id in ids[:MAX_TASKS]:
            try:
                found[job_id] = self._facts(job_id, request, index)[0]
            except TiresiasError as error:
                problem = error
        if not found:
            raise problem
        groups = grouped(found)
        for group in groups:
            self._add_dependencies(group, request)
        return {
            "array": chosen(request.wanted)[0], "count": len(ids), "groups": groups,
            "paused": request.newest.about.get("paused"),
        }  # fmt: skip

    def _facts(self, job_id: str, request: ExplainRequest, index: Index) -> tuple[dict[str, Any], JobRow]:
        """`job`: as in the status; `slurm`: slurm_facts, None once slurmctld has forgotten the job. Raises TiresiasError."""
        record, row = index.records.get(job_id), self._past.history.job(job_id)
        aside = Scope.of(request.newest.config).why_not(record) if record else ""
        owners = {one.uid for one in (record, row) if one}
        if not owners or (self._privacy.hides_jobs_from(request.uid) and owners != {request.uid}):
            raise _unknown(request.wanted)
        if record and aside and (row is None or row.ended):
            slurm = f"Slurm: {record.state}, {record.reason}"
            raise TiresiasError(f"job {request.wanted}: {aside}: Slurm alone schedules it ({slurm})")
        if row is None:
            raise _unknown(request.wanted)
        job = (
            dict(request.shown[job_id])
            if job_id in request.shown
            else set_aside(row, record, request.newest.slurm.time)
        )
        return {"job": job, "slurm": slurm_facts(record, index) if record else None}, row

    def _one(self, job_id: str, request: ExplainRequest) -> dict[str, Any]:
        found, row = self._facts(job_id, request, Index.of(request.newest))
        self._add_dependencies(found, request)
        newest, history = request.newest, self._past.history
        runs, left_for = history.runs(row.key), history.beneficiaries(row.key)
        if runs and not found["job"].get("gpus"):
            found["job"]["gpus"] = runs[-1].gpus
        return {
            **found,
            "runs": [run_of(run, left_for) for run in runs],
            "decisions": [decision(one) for one in history.decisions(job_id)],
            "had": rounded(usage(row, runs, EVER, time.time())),
            "outlook": _outlook(newest, job_id, self._privacy.hides_jobs_from(request.uid)),
            "paused": newest.about.get("paused"),
        }

    def _add_dependencies(self, found: dict[str, Any], request: ExplainRequest) -> None:
        record = next((job for job in request.jobs if job.id == found["job"]["id"]), None)
        if record and found["slurm"]:
            sees_others = not self._privacy.hides_jobs_from(request.uid)
            found["slurm"]["depends_on"] = list(dependencies(record, request.jobs, sees_others))


def decision(one: Decision) -> dict[str, Any]:
    return {"time": one.time, "job": one.id, "action": one.action, "why": one.why}


def _unknown(job_id: str) -> TiresiasError:
    return TiresiasError(f"job {job_id}: not known here; jobs outside the managed partitions are Slurm's alone")


def _outlook(newest: Publication, job_id: str, alone: bool) -> dict[str, Any] | None:
    """What a job that waits for GPUs waits for; None for any other. alone: others' jobs are not to be told of."""
    jobs, plan = newest.snapshot.jobs, newest.plan
    row = jobs.id.index(job_id) if job_id in jobs.id else -1
    if row < 0 or plan.action[row] != Action.WAIT:
        return None
    found = start_forecast(*newest.part_of(row))
    steps, bound = found.steps, found.bound
    if any(start.job == job_id for start in plan.reserved):
        due = newest.due.get(job_id)
        steps = (ForecastStep(due, "the jobs preempted for it have saved by then, or run on"),) if due else ()
        bound = StartTimeBound(math.inf, "it starts as soon as they have left")
    return {
        **{name: getattr(found, name) for name in ("free", "ahead", "behind", "fixed", "others")},
        "steps": [{"time": round(step.at, 3), "what": step.what} for step in steps if not (alone and step.other)],
        "latest": round(bound.at, 3) if bound.at < math.inf else None, "why": bound.why, **_forecast(newest, job_id, row),
    }  # fmt: skip


def _forecast(newest: Publication, job_id: str, row: int) -> dict[str, Any]:
    """When the job is estimated to start, from time limits, and what of its options has no effect."""
    snapshot, plan, policy, _, _ = newest.part_of(row)
    starts = starts_of(newest.slurm, snapshot, plan, policy)
    start = starts.get(job_id, math.inf)
    record = next(job for job in newest.slurm.jobs if job.id == job_id)
    return {"estimate": round(newest.slurm.time + start, 3) if start < math.inf else None, "notes": notes(record)}


def set_aside(row: JobRow, record: SlurmJob | None, now: float) -> dict[str, Any]:
    """A job that does not compete: ended, held by its owner or an admin, left to Slurm, or waiting for a dependency."""
    about = {
        "id": row.id, "uid": row.uid, "state": "ENDED" if row.ended else "NOT COMPETING", "submit_time": row.submit,
        "preemptions": row.preemptions, "why": row.unmovable if row.ended else _why_aside(row, record),
    }  # fmt: skip
    if record is None:
        return about
    waited = {} if row.ended else {"waited": max(now - row.submit, 0.0)}
    known = {"name": record.name, "user": record.user, "partition": record.partition, "gpus": record.gpus}
    return about | known | waited


def _why_aside(row: JobRow, record: SlurmJob | None) -> str:
    if row.unpinnable:
        return f"left to Slurm: {row.unpinnable}"
    return blocked(record.reason if record else "nothing")
