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
from tiresias.scheduler.forecast.forecast_codes import ForecastCode, ForecastReason
from tiresias.scheduler.forecast.forecast_words import forecast_in_words
from tiresias.scheduler.forecast.start_forecast import ForecastStep, start_forecast
from tiresias.scheduler.forecast.start_time_bound import StartTimeBound
from tiresias.scheduler.model import Effect
from tiresias.scheduler.reasons import blocked
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.comments.start_times import notes, starts_of
from tiresias.slurm_plugin.sockets.array_tasks import MAX_TASKS, chosen, grouped, matching
from tiresias.slurm_plugin.sockets.history_pages import ALL_TIME, HistoryPages, rounded, run_of, unreadable
from tiresias.slurm_plugin.sockets.privacy import Privacy
from tiresias.slurm_plugin.sockets.progress_answers import progress_of
from tiresias.slurm_plugin.sockets.shown_interference import expected_interference, speed_of_nodes
from tiresias.slurm_plugin.sockets.shown_remote_memory import pool_of
from tiresias.slurm_plugin.sockets.slurm_facts import Index, dependencies, named, slurm_facts
from tiresias.slurm_plugin.state import job_reasons
from tiresias.slurm_plugin.state.journal_rows import Decision, JobRow
from tiresias.slurm_plugin.state.usage import usage

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """One request.

    Attributes:
        requested: the id as given
        uid: of the user
        newest: the newest publication
        shown: the published jobs that the user may see, by id
    """

    requested: str
    uid: int
    newest: Publication
    shown: Mapping[str, Mapping[str, Any]]

    @property
    def jobs(self) -> tuple[SlurmJob, ...]:
        """Slurm's jobs."""
        return self.newest.slurm.jobs


class Explanations:
    """Answers explain requests; used by the socket's thread only."""

    def __init__(self, journal: Path, past: HistoryPages, privacy: Privacy) -> None:
        self._journal, self._past, self._privacy = journal, past, privacy

    def answer(self, request: ExplainRequest) -> dict[str, Any]:
        """Return one job, or the tasks of an array in groups.

        Raises:
            TiresiasError: no such job, or the user may not see it.
        """
        try:
            ids = self._ids(request)
            if len(ids) == 1:
                return self._one(ids[0], request)
            return self._array(ids, request)
        except sqlite3.Error as error:
            raise unreadable(self._journal, error) from None

    def progress(self, request: ExplainRequest) -> dict[str, Any]:
        """Return what one job reported.

        Raises:
            TiresiasError: no such job, or the user may not see it.
        """
        try:
            ids = self._ids(request)
            if len(ids) > 1:
                raise TiresiasError(
                    f"job {request.requested}: an array has no progress of its own; name a task, such as {ids[0]}"
                )
            found, row = self._facts(ids[0], request, Index.of(request.newest))
            sizes = request.newest.sizes.get(ids[0])
            return progress_of(found["job"], row, self._past.history, sizes)
        except sqlite3.Error as error:
            raise unreadable(self._journal, error) from None

    def _ids(self, request: ExplainRequest) -> list[str]:
        """Return the ids of the jobs in the newest snapshot, and of the tasks that ended before it."""
        name, tasks = chosen(request.requested)
        live = [job.id for job in named(name, request.jobs)]
        if len(live) == 1 and tasks is None:
            return live
        found = matching(request.requested, [*live, *self._past.history.ids_of(name)])
        if not found:
            raise _unknown(request.requested)
        return found

    def _array(self, ids: Sequence[str], request: ExplainRequest) -> dict[str, Any]:
        """Return the groups of tasks; tasks that the controller has no record of are left out."""
        found, problem = {}, _unknown(request.requested)
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
            "array": chosen(request.requested)[0],
            "count": len(ids),
            "groups": groups,
            "paused": request.newest.about.get("paused"),
        }

    def _facts(self, job_id: str, request: ExplainRequest, index: Index) -> tuple[dict[str, Any], JobRow]:
        """Return `job` as in the status and `slurm`, None after slurmctld has removed the job. Raises TiresiasError."""
        record, row = index.records.get(job_id), self._past.history.job(job_id)
        unmanaged = Scope.of(request.newest.config).why_not(record) if record else ""
        owners = {one.uid for one in (record, row) if one}
        if not owners or (self._privacy.hides_jobs_from(request.uid) and owners != {request.uid}):
            raise _unknown(request.requested)
        if record and unmanaged and (row is None or row.ended):
            slurm = f"Slurm: {record.state}, {record.reason}"
            raise TiresiasError(f"job {request.requested}: {unmanaged}: Slurm alone schedules it ({slurm})")
        if row is None:
            raise _unknown(request.requested)
        job = (
            dict(request.shown[job_id])
            if job_id in request.shown
            else not_competing(row, record, request.newest.slurm.time)
        )
        return {"job": job, "slurm": slurm_facts(record, index) if record else None}, row

    def _one(self, job_id: str, request: ExplainRequest) -> dict[str, Any]:
        found, row = self._facts(job_id, request, Index.of(request.newest))
        self._add_dependencies(found, request)
        newest, history = request.newest, self._past.history
        runs, beneficiaries = history.runs(row.key), history.beneficiaries(row.key)
        if runs and not found["job"].get("gpus"):
            found["job"]["gpus"] = runs[-1].gpus
        return {
            **found,
            "runs": [run_of(run, beneficiaries) for run in runs],
            "decisions": [decision(one) for one in history.decisions(job_id)],
            "had": rounded(usage(row, runs, ALL_TIME, time.time())),
            "outlook": _forecast(newest, job_id, self._privacy.hides_jobs_from(request.uid)),
            "interference": expected_interference(newest, job_id, request.shown),
            "speed": speed_of_nodes(newest, job_id),
            "remote_memory": pool_of(newest),
            "paused": newest.about.get("paused"),
        }

    def _add_dependencies(self, found: dict[str, Any], request: ExplainRequest) -> None:
        record = next((job for job in request.jobs if job.id == found["job"]["id"]), None)
        if record and found["slurm"]:
            sees_others = not self._privacy.hides_jobs_from(request.uid)
            found["slurm"]["depends_on"] = list(dependencies(record, request.jobs, sees_others))


def decision(one: Decision) -> dict[str, Any]:
    """Return a decision as it is published."""
    return {"time": one.time, "job": one.id, "action": one.action, "why": one.why}


def _unknown(job_id: str) -> TiresiasError:
    return TiresiasError(f"job {job_id}: not known here; Slurm alone schedules jobs outside the managed partitions")


def _forecast(newest: Publication, job_id: str, alone: bool) -> dict[str, Any] | None:
    """Return the start forecast of a job that waits for GPUs of the controller's plan, None for any other.

    alone: jobs of other users are hidden."""
    jobs, plan = newest.snapshot.jobs, newest.plan
    row = jobs.id.index(job_id) if job_id in jobs.id else -1
    if row < 0 or plan.effect[row] != Effect.WAIT or newest.config.assists:
        return None
    found = start_forecast(*newest.part_of(row))
    steps, bound = found.steps, found.bound
    if any(start.job == job_id for start in plan.reserved):
        due = newest.due.get(job_id)
        steps = (ForecastStep(due, ForecastReason(ForecastCode.SAVES_DUE)),) if due else ()
        bound = StartTimeBound(math.inf, ForecastReason(ForecastCode.AFTER_RELEASE))
    return {
        "free": found.free,
        "ahead": found.ahead,
        "behind": found.lower_ranked,
        "fixed": found.fixed,
        "others": found.others,
        "steps": [
            {"time": round(step.at, 3), "what": forecast_in_words(step.what)}
            for step in steps
            if not (alone and step.what.job)
        ],
        "latest": round(bound.at, 3) if bound.at < math.inf else None,
        "why": forecast_in_words(bound.why),
        **_estimate(newest, job_id, row),
    }


def _estimate(newest: Publication, job_id: str, row: int) -> dict[str, Any]:
    """Return the estimated start from time limits, and the job's options without effect."""
    snapshot, plan, policy, _, _ = newest.part_of(row)
    starts = starts_of(newest.slurm, snapshot, plan, policy)
    start = starts.get(job_id, math.inf)
    record = next(job for job in newest.slurm.jobs if job.id == job_id)
    return {"estimate": round(newest.slurm.time + start, 3) if start < math.inf else None, "notes": notes(record)}


def not_competing(row: JobRow, record: SlurmJob | None, now: float) -> dict[str, Any]:
    """Return a job that does not compete: ended, held by its owner or an administrator, left to Slurm, or waiting for a
    dependency.
    """
    about = {
        "id": row.id,
        "uid": row.uid,
        "state": "ENDED" if row.ended else "NOT COMPETING",
        "submit_time": row.submit,
        "preemptions": row.preemptions,
        "why": job_reasons.text(row.unmovable) if row.ended else _why_not_competing(row, record),
    }
    if record is None:
        return about
    waited = {} if row.ended else {"waited": max(now - row.submit, 0.0)}
    known = {"name": record.name, "user": record.user, "partition": record.partition, "gpus": record.gpus}
    return about | known | waited


def _why_not_competing(row: JobRow, record: SlurmJob | None) -> str:
    if row.unpinnable:
        return f"left to Slurm: {job_reasons.text(row.unpinnable)}"
    return blocked(record.reason if record else "nothing")
