"""A cluster whose nodes have a real core each, on which a controller places jobs with input pipelines."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.checks import open_steps
from tests.co_location.pipeline_jobs import KINDS, PlannedJob
from tests.co_location.predictions import TrainedRun, by_job_names, double_booked
from tests.slurm_plugin.controller.centre import ROOTS, Centre
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.replay import invariants
from tiresias.sandbox.replay.replay_results import JobLog, JobResult, slurm_runs
from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.scheduler.estimates.co_located_runs import co_run_samples, is_measured
from tiresias.scheduler.estimates.learned_interference import NOTHING_LEARNED, LearnedInterference, learning
from tiresias.scheduler.interference_table import InterferenceTable
from tiresias.simulator.trace import TraceJob
from tiresias.slurm_plugin.observation.runs_to_learn import JournalRuns
from tiresias.slurm_plugin.state.journal_history import History

PROGRAM = "/opt/tiresias/tests/co_location/input_pipeline.py"  # the checkout, as the cluster sees it
SHARED = "/shared/co-location"
SCRIPT = f'#!/bin/bash\nexec python3 {PROGRAM} "$@"\n'
USER = "alice"
ALL_END_S = 300.0  # from the last submission
LEARNED_S = 60.0
KEPT_DECISIONS = 100_000
CONFIG: dict[str, dict[str, Any]] = {"policy": {"name": "fifo"}, "progress": {"timed": 1.0}}


class Calibrated(NamedTuple):
    """What a controller learned: its state folder inside the cluster, and the same as its pure code learns it from the journal."""

    state: str
    learned: LearnedInterference
    table: InterferenceTable | None  # by names of jobs


class PipelineCentre(Centre):
    """The cluster and its controller.

    Args:
        name: Of the cluster.
        suite: Debian suite.
        nodes: Their number, at most that of the cores which this process may use.
        steps: Of each job.
    """

    def __init__(self, name: str, suite: str, nodes: int, steps: int) -> None:
        super().__init__(Cluster.up(cluster_spec(name, suite, nodes)))
        self._steps = steps
        self._cores = sorted(os.sched_getaffinity(0))[:nodes]
        self._planned = dict[str, PlannedJob]()
        try:
            self._prepare()
        except BaseException:
            self.cluster.down()
            raise

    def _prepare(self) -> None:
        self.folder = self.cluster.shared / Path(SHARED).name
        for part in ("", "results", "output"):
            (self.folder / part).mkdir()
            (self.folder / part).chmod(0o1777)
        (self.folder / "job.sh").write_text(SCRIPT)
        self.rate = float(self.cluster.run(["python3", PROGRAM, "--rate"], user=USER).stdout)
        imports = "import tiresias.sandbox.replay.submitter, tiresias.wrappers.tsbatch, tiresias.wrappers.supervisor"
        self.cluster.run(["python3", "-c", imports], user=USER)

    # -- the controller -------------------------------------------------------------------------------------------------

    def start_style(self, style: str, calibrated: Calibrated | None = None, weights: str = "") -> str:
        """Start a controller with a style of placement; return its state folder.

        Args:
            style: The style.
            calibrated: Its state folder is copied: the controller knows the same runs as every other one.
            weights: Path inside the cluster of the network of style learned.
        """
        placement = {"style": style, "trial": "anywhere", **({"weights": weights} if weights else {})}
        config, state = self.configure(placement=placement, **CONFIG)
        if calibrated:
            self.cluster.run(["cp", "-a", calibrated.state, state])
        self.start(config)
        if calibrated and (self.status().get("interference") is not None):
            self.wait_until(lambda: self.status()["interference"]["samples"], "nothing is learned", seconds=LEARNED_S)
        return state

    def calibrate(self, rounds: Sequence[Sequence[PlannedJob]]) -> tuple[Calibrated, list[TrainedRun]]:
        """Run jobs alone and in pairs under a controller, and return what it learns and all their runs."""
        state = self.start_style("consolidate")
        for jobs in rounds:
            self.play(jobs)
        self.stop()
        learned = learned_from(self.journal_file)
        table = learned.table and by_job_names(learned.table, [kind.name for kind in KINDS])
        return Calibrated(state, learned, table), self.runs([one for each in rounds for one in each])

    # -- jobs -----------------------------------------------------------------------------------------------------------

    def play(self, jobs: Sequence[PlannedJob]) -> None:
        """Submit jobs at their times, and wait until all of them have ended and the controller has recorded that."""
        self._planned |= {job.name: job for job in jobs}
        begin = time.time() + 0.5
        plan = self.folder / f"plan-{jobs[0].name}.jsonl"
        plan.write_text("\n".join(json.dumps(self._submission(job, begin)) for job in jobs))
        submitter = self._submitter(plan.name)
        assert submitter.wait(jobs[-1].after + ALL_END_S) == 0, "the submitter failed"
        refused = [entry["error"] for entry in self._submitted().values() if entry["error"]]
        assert not refused, refused[0]
        self.wait_until(lambda: self._has_ended(jobs), "jobs do not end", seconds=ALL_END_S)

    def results(self, jobs: Sequence[PlannedJob]) -> list[JobResult]:
        """Return the result of each job."""
        return [self._result(job) for job in jobs]

    def runs(self, jobs: Sequence[PlannedJob]) -> list[TrainedRun]:
        """Return the run of each job that finished, in one run."""
        return [self._run(self._result(job)) for job in jobs if self._result(job).finished]

    def invariants(self, jobs: Sequence[PlannedJob]) -> dict[str, float]:
        """Return the counts of `tiresias.sandbox.replay.invariants`, of GPUs of two jobs, and of starts that the journal has under
        way. The controller has stopped."""
        results, slurm = self.results(jobs), slurm_runs(self.cluster.log / "jobcomp.log")
        ids = {result.id for result in results}
        with closing(History.of(self.journal_file)) as history:
            decisions = [one for one in history.decisions(limit=KEPT_DECISIONS) if one.id in ids]
            found = invariants.count(results, slurm) | invariants.compare_ledger(results, slurm, history)
            found |= invariants.compare_plan(decisions)
        steps = open_steps(self.journal_file)
        return {**found, "double_booked": len(double_booked(self.runs(jobs))), "open_steps": len(steps)}

    def controller_seconds(self, jobs: Sequence[PlannedJob]) -> dict[str, float]:
        """Return the seconds a step that the controller timed, by job; those that it did not time are missing."""
        ids = {result.id: result.job.job_id for result in self.results(jobs)}
        with closing(History.of(self.journal_file)) as history:
            runs = JournalRuns(history).at(time.time()).runs
        return {
            ids[run.job.partition("@")[0]]: run.seconds
            for run in runs
            if run.job.partition("@")[0] in ids and is_measured(run)
        }

    # -- inner ----------------------------------------------------------------------------------------------------------

    def _submission(self, job: PlannedJob, begin: float) -> dict[str, Any]:
        kind = next(each for each in KINDS if each.name == job.kind)
        command = [
            "tsbatch", "--parsable", f"--job-name={job.kind}", "--gpus=1", "--ntasks=1", "--nodes=1", "--gpus-per-task=1",
            "--time=10", f"--output={SHARED}/output/{job.name}", "--chdir=/tmp",
            *([f"--nodelist={job.node}"] if job.node else []), f"{SHARED}/job.sh",
            "--job", job.name, "--steps", str(self._steps), "--batch", str(max(1, round(self.rate * kind.cpu_s))),
            "--wait", str(kind.wait_s), "--cores", ",".join(map(str, self._cores)), "--results", f"{SHARED}/results",
        ]  # fmt: skip
        return {"job": job.name, "at": begin + job.after, "name": job.kind, "command": command}

    def _submitter(self, plan: str) -> subprocess.Popen[Any]:
        command = [
            "python3",
            "-m",
            "tiresias.sandbox.replay.submitter",
            f"{SHARED}/{plan}",
            f"{SHARED}/output/submitted",
        ]
        with (self.cluster.log / "submitter.log").open("ab") as log:
            return self.cluster.popen(
                command, user=USER, env=ROOTS, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )  # fmt: skip

    def _submitted(self) -> dict[str, dict[str, Any]]:
        lines = (self.folder / "output/submitted").read_text().splitlines()
        return {entry["job"]: entry for entry in map(json.loads, lines)}

    def _has_ended(self, jobs: Sequence[PlannedJob]) -> bool:
        if not all(self._log(job.name).finished for job in jobs):
            return False
        return not self.cluster.run(["squeue", "-h", "-o", "%i"]).stdout.strip() and not self.status().get("jobs")

    def _log(self, name: str) -> JobLog:
        log = JobLog(self.folder / "results" / f"{name}.jsonl")
        log.follow()
        return log

    def _result(self, job: PlannedJob) -> JobResult:
        log, entry = self._log(job.name), self._submitted()[job.name]
        duration = self._steps * sum(next((each.cpu_s, each.wait_s) for each in KINDS if each.name == job.kind))
        traced = TraceJob(job_id=job.name, submit_time=job.after, num_gpus=1, duration=duration)
        return JobResult(traced, str(entry["id"]), entry["time"], tuple(log.runs), log.finish, log.steps, log.curve)

    def _run(self, result: JobResult) -> TrainedRun:
        job = self._planned[result.job.job_id]
        lines = (self.folder / "results" / f"{job.name}.jsonl").read_text().splitlines()
        start = json.loads(lines[0])
        devices = tuple(map(int, start["devices"].split(",")))
        seconds = result.training / result.steps
        return TrainedRun(job.name, job.kind, start["node"], devices, start["time"], result.finish, seconds, result.jct)


def cluster_spec(name: str, suite: str, nodes: int) -> ClusterSpec:
    """Return a cluster of nodes with four GPUs under one leaf switch."""
    return ClusterSpec(name=name, suite=suite, nodes=nodes, nodes_per_rack=nodes, topology="tree")


def learned_from(journal: Path) -> LearnedInterference:
    """Return what a controller that starts now learns from a journal."""
    with closing(History.of(journal)) as history:
        found = JournalRuns(history).at(time.time())
        return [step or NOTHING_LEARNED for step in learning(co_run_samples(found.runs, found.since))][-1]
