"""Runs a trace as real jobs under one policy, on a cluster of its own.

    with Replay("las", jobs, options) as replay:
        replay.begin(time.time())
        while not replay.over():
            time.sleep(1.0)
        results = replay.results()

All active parts are other processes: one submitter per user, the controller for Tiresias's policies, Slurm, the trainers.
They write files to the cluster's /shared, which this process reads; nothing here delays a job.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.protocol import environment
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.replay import preparation, setup, site_setup, slurm_order_log, start_overhead, tenant_setup
from tiresias.sandbox.replay.replay_policies import MANAGED_POLICIES, ReplayPolicy
from tiresias.sandbox.replay.replay_results import JobLog, JobResult, ReplayProgress
from tiresias.sandbox.replay.setup import FOLDER, USERS, Options
from tiresias.sandbox.replay.slurm_order_log import QueueSample, SlurmctldLog
from tiresias.simulator.formats.sacct_table import COMMAND as SACCT
from tiresias.simulator.trace import TraceJob
from tiresias.slurm_plugin.sockets.control_client import ask

STALL_TIMEOUT_S = 60.0  # without any event, after which Slurm's queue is checked for the jobs
SETTLE_TIMEOUT_S = 60.0  # from the last trainer's end to an empty queue
CONTROLLER_START_TIMEOUT_S = 60.0  # until the controller answers
CONFIG = "tiresias.toml"
ORDER_SAMPLES = "order-samples.txt"
CONTROL_SOCKET = "run/tiresias/control.sock"


class Replay:
    """One replay; a context manager that stops its cluster.

    Args:
        policy: a key of replay_policies.LABELS
        jobs: of the trace
        options: of the replay
        keep: whether the cluster's folder is kept
        purpose: the first word of the cluster's name

    Raises:
        TiresiasError: the cluster or the controller does not start.
    """

    def __init__(
        self, policy: str, jobs: Sequence[TraceJob], options: Options, keep: bool = False, purpose: str = "replay"
    ) -> None:
        """Start the cluster and, for Tiresias's policies, the controller."""
        self.policy, self.jobs, self.options, self.keep = policy, jobs, options, keep
        self.cluster = self._bring_up(f"{purpose}-{re.sub('[+_]', '-', policy)}-{os.getpid()}")
        self._submitters: dict[str, subprocess.Popen[Any]] = {}
        self._controller: subprocess.Popen[Any] | None = None
        self._moved = self.started = self.ended = 0.0
        self.last_progress = ReplayProgress(len(jobs), 0, 0, 0)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, start: float) -> None:
        """Submit job J at `start` + its submit_time / time_scale."""
        self.started = self._moved = start
        self._sample_order()
        self._submit(self.jobs, first_row=0)

    def add(self, jobs: Sequence[TraceJob]) -> None:
        """Add jobs to the trace of a replay that has begun; a job whose submit_time has passed is submitted at once."""
        first_row = len(self.jobs)
        self.jobs = [*self.jobs, *jobs]
        self._logs |= self._new_logs(jobs)
        if self.policy in MANAGED_POLICIES:
            preparation.store_profiles(self.cluster, self.jobs, self.options)
        self._submit(jobs, first_row)

    def progress(self) -> ReplayProgress:
        """Read new events and return the progress; call it about once a second."""
        unfinished = [log for log in self._logs.values() if not log.finished]
        before = [(len(log.runs), log.running) for log in unfinished]
        for log in unfinished:
            log.follow()
        if before != [(len(log.runs), log.running) for log in unfinished]:
            self._moved = time.time()
        self.last_progress = self._count()
        return self.last_progress

    def over(self) -> bool:
        """Return whether every job has finished, or can no longer finish because Slurm has no unfinished job."""
        counts = self.progress()
        self._check_processes(counts)
        stalled = counts.submitted == counts.jobs and time.time() - self._moved > STALL_TIMEOUT_S
        if counts.finished < counts.jobs and not (stalled and not self._known_to_slurm()):
            return False
        self.ended = self.ended or time.time()
        return True

    def settle(self) -> None:
        """Wait until Slurm and the controller have recorded the end of every job: trainers end slightly before their jobs."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while (self._known_to_slurm() or self.status().get("jobs")) and time.monotonic() < deadline:
            time.sleep(0.2)

    def status(self) -> dict[str, Any]:
        """Return the controller's status; {} if it is busy or there is none."""
        if self.policy not in MANAGED_POLICIES:
            return {}
        with contextlib.suppress(TiresiasError):
            return ask(self.control_socket, {"op": "status"}, timeout=2.0)
        return {}

    def results(self) -> list[JobResult]:
        """Return the result of each job."""
        submitted = self._submitted()
        results = []
        for job in self.jobs:
            entry, log = submitted.get(job.job_id, {}), self._logs[job.job_id]
            log.follow()
            moment = float(entry.get("time", self.started + job.submit_time / self.options.time_scale))
            results.append(
                JobResult(job, str(entry.get("id", "")), moment, tuple(log.runs), log.finish, log.steps, log.curve)
            )
        return results

    def accounting(self) -> str:
        """Return sacct's output on every job and run, for `tiresias whatif`.

        Raises:
            TiresiasError: slurmdbd lags.
        """
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while (output := self.cluster.run([*SACCT.split(), "now-1day"]).stdout).count("|Unknown|") or not output:
            if time.monotonic() > deadline:
                raise TiresiasError(f"{self.policy}: slurmdbd has not recorded the end of every job")
            time.sleep(1.0)
        return output

    @property
    def control_socket(self) -> Path:
        """The controller's socket as a path on this machine."""
        return Path(f"/proc/{self.cluster.init.pid}/root") / CONTROL_SOCKET

    @property
    def journal(self) -> Path:
        """The controller's state; readable when the controller has stopped."""
        return self.cluster.folder / "lib" / "journal.sqlite"

    @property
    def has_slurm_order(self) -> bool:
        """Whether Slurm starts all jobs in its own order, of jobs in one partition or several with the same nodes."""
        is_exact = self.policy in MANAGED_POLICIES and not ReplayPolicy.parsed(self.policy).assists
        return not is_exact and not self.options.tenants

    def slurm_order(self) -> tuple[list[QueueSample], SlurmctldLog]:
        """Return the samples of Slurm's order so far, and what slurmctld and the slurmds logged."""
        launched = start_overhead.launched_by_slurmd(self.cluster.log.glob("gpu*.log"))
        text = (self.cluster.log / "slurmctld.log").read_text(errors="replace")
        return slurm_order_log.read_samples(self.folder / ORDER_SAMPLES), SlurmctldLog.parsed(text, launched)

    def stop_controller(self) -> None:
        """Stop the controller with SIGTERM, as an administrator would; it lifts its holds."""
        if self._controller and self.cluster.alive():
            self.cluster.run(["pkill", "-TERM", "-f", "tiresias controller"], check=False, timeout=20)
            _end(self._controller)

    def start_controller(self, program: Sequence[str] = ("tiresias", "controller", "--config")) -> None:
        """Start the controller and wait until it answers.

        Args:
            program: command whose last argument is the configuration's path

        Raises:
            TiresiasError: the controller does not answer.
        """
        command = [*program, f"{FOLDER}/{CONFIG}"]
        self._controller = self._background("controller", command, self.cluster.spec.daemon_user)
        deadline = time.monotonic() + CONTROLLER_START_TIMEOUT_S
        while not self.status():
            if self._controller.poll() is not None or time.monotonic() > deadline:
                raise TiresiasError(f"the controller does not start: {_last_line(self.folder / 'logs/controller')}")
            time.sleep(0.1)

    @property
    def controller_exit(self) -> int | None:
        """Exit code of the controller, None while it runs; 137 or -9 after SIGKILL, depending on the entering program."""
        return self._controller.poll() if self._controller else 0

    def kill_controller(self) -> None:
        """Send SIGKILL to the controller and wait for its end."""
        self.cluster.run(["pkill", "-KILL", "-f", "tiresias controller"], check=False, timeout=20)
        if self._controller:
            self._controller.wait(20)

    def close(self) -> None:
        """End all processes and remove the cluster's folder, unless it is kept."""
        with contextlib.suppress(TiresiasError, subprocess.TimeoutExpired):
            self.stop_controller()
        for process in self._submitters.values():
            _end(process)
        if self.keep:
            self.cluster.kill()
        else:
            self.cluster.down()

    # -- inner --------------------------------------------------------------------------------------------------------

    def _bring_up(self, name: str) -> Cluster:
        """Start the cluster; an interrupted start leaves no folder."""
        try:
            return Cluster.up(setup.cluster_spec(self.policy, self.options, name))
        except (KeyboardInterrupt, SystemExit):
            Cluster.remove_dead(name)
            raise

    def _prepare(self) -> None:
        self.folder = self.cluster.shared / Path(FOLDER).name
        for name in ("", "results", "output", "logs", "checkpoints"):
            (self.folder / name).mkdir()
            (self.folder / name).chmod(0o1777)
        (self.folder / "job.sh").write_text(setup.SCRIPT)
        (self.folder / "epilog.sh").write_text(setup.EPILOG)
        (self.folder / "epilog.sh").chmod(0o755)
        self._logs = self._new_logs(self.jobs)
        if self.options.tenants:
            tenant_setup.prepare(self.cluster, self.policy, self.options.tenants, USERS)
        if self.options.site:
            site_setup.prepare(self.cluster, self.policy, self.options.site)
        if self.policy in MANAGED_POLICIES:
            preparation.make_job_roots(self.cluster)
            preparation.store_profiles(self.cluster, self.jobs, self.options)
            (self.folder / CONFIG).write_text(setup.controller_config(self.policy, self.options))
            self.start_controller()
        preparation.compile_modules(self.cluster, self.policy)

    def _new_logs(self, jobs: Sequence[TraceJob]) -> dict[str, JobLog]:
        return {job.job_id: JobLog(self.folder / "results" / f"{job.job_id}.jsonl") for job in jobs}

    def _submit(self, jobs: Sequence[TraceJob], first_row: int) -> None:
        plans: dict[str, list[str]] = {user: [] for user in USERS}
        reporters = setup.reporters(self.jobs, self.policy, self.options)
        for row, job in enumerate(jobs, first_row):
            reports = job.job_id in reporters
            user, name, command = setup.submission(job, row, self.policy, self.options, reports)
            at = self.started + job.submit_time / self.options.time_scale
            plans[user].append(json.dumps({"job": job.job_id, "at": at, "name": name, "command": command}))
        for user, plan in plans.items():
            if plan:
                self._start_submitter(user, plan, first_row)

    def _start_submitter(self, user: str, plan: Sequence[str], first_row: int) -> None:
        name = f"{user}-{first_row}"
        (self.folder / f"plan-{name}.jsonl").write_text("\n".join(plan))
        files = [f"{FOLDER}/plan-{name}.jsonl", f"{FOLDER}/submitted-{user}.jsonl"]
        command = ["python3", "-m", "tiresias.sandbox.replay.submitter", *files]
        self._submitters[f"submitter-{name}"] = self._background(f"submitter-{name}", command, user)

    def _sample_order(self) -> None:
        """Sample Slurm's order until the cluster ends, where Slurm starts jobs in its own order."""
        if self.has_slurm_order:
            command = ["sh", "-c", f"{{ {slurm_order_log.SAMPLER}; }} >> {FOLDER}/{ORDER_SAMPLES} 2>/dev/null"]
            self._background("order-samples", command, "slurm")

    def _background(self, name: str, command: list[str], user: str) -> subprocess.Popen[Any]:
        roots = {
            environment.CONTROL_ROOT: "/shared/tiresias/control",
            environment.CHECKPOINT_ROOT: "/shared/tiresias/checkpoints",
        }
        with (self.folder / "logs" / name).open("ab") as log:
            return self.cluster.popen(
                command,
                user=user,
                env=roots,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _count(self) -> ReplayProgress:
        logs = self._logs.values()
        return ReplayProgress(
            len(self.jobs), len(self._submitted()), sum(log.running for log in logs), sum(log.finished for log in logs)
        )

    def _submitted(self) -> dict[str, dict[str, Any]]:
        entries = {}
        for user in USERS:
            path = self.folder / f"submitted-{user}.jsonl"
            for line in path.read_text().splitlines() if path.exists() else []:
                with contextlib.suppress(ValueError):  # the last line may be incomplete
                    entry = json.loads(line)
                    entries[str(entry["job"])] = entry
        return entries

    def _check_processes(self, counts: ReplayProgress) -> None:
        """Raises TiresiasError when the controller or a submitter has died, or a submission was refused."""
        for name, process in {**self._submitters, "controller": self._controller}.items():
            if process and process.poll() not in (None, 0):
                self.keep = True  # the message names a log in the cluster's folder
                log = self.folder / "logs" / name
                raise TiresiasError(f"the {name} ended with exit code {process.returncode}: {_last_line(log)} ({log})")
        for entry in self._submitted().values():
            if entry["error"]:
                raise TiresiasError(f"job {entry['job']} was not accepted: {entry['error'].splitlines()[-1]}")

    def _known_to_slurm(self) -> bool:
        return bool(self.cluster.run(["squeue", "-h", "-o", "%i"]).stdout.strip())


def _end(process: subprocess.Popen[Any]) -> None:
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "it wrote nothing")
