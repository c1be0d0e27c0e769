"""Runs a trace as real jobs under one policy, on a cluster of its own.

    with Replay("las", jobs, options) as replay:
        replay.begin(time.time())
        while not replay.over():
            time.sleep(1.0)
        results = replay.results()

Everything that moves is outside this process: one submitter per user, the controller for our own policies, Slurm, the
trainers. They leave files in the cluster's /shared, which this reads; nothing here delays a job.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.replay import profiles, setup
from tiresias.sandbox.replay.results import JobLog, JobResult
from tiresias.sandbox.replay.setup import FOLDER, OURS, USERS, Options
from tiresias.sandbox.rootfs import USERS as UIDS
from tiresias.simulator.formats.sacct_table import COMMAND as SACCT
from tiresias.simulator.trace import TraceJob
from tiresias.slurm_plugin.sockets.control_socket import ask

STALLED = 60.0  # seconds without any event before Slurm is asked whether it still knows the jobs
SETTLED = 60.0  # seconds at most between the last trainer's end and an empty queue
READY = 60.0  # seconds for the controller to answer
CONFIG = "tiresias.toml"
CONTROL_SOCKET = "run/tiresias/control.sock"


@dataclass(frozen=True, slots=True)
class Progress:
    jobs: int
    submitted: int
    running: int
    finished: int

    @property
    def waiting(self) -> int:
        return self.submitted - self.running - self.finished


class Replay:
    def __init__(
        self, policy: str, jobs: Sequence[TraceJob], options: Options, keep: bool = False, purpose: str = "replay"
    ) -> None:
        """Brings the cluster and, for our policies, the controller up. Raises TiresiasError, Unavailable.

        purpose: the first word of the cluster's name.
        """
        self.policy, self.jobs, self.options, self.keep = policy, jobs, options, keep
        self.cluster = self._bring_up(f"{purpose}-{re.sub('[+_]', '-', policy)}-{os.getpid()}")
        self._processes: list[subprocess.Popen[Any]] = []
        self._controller: subprocess.Popen[Any] | None = None
        self._moved = self.started = self.ended = 0.0
        self.last_progress = Progress(len(jobs), 0, 0, 0)
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
        """Job J is submitted at `start` + its submit_time / time_scale."""
        self.started = self._moved = start
        plans: dict[str, list[str]] = {user: [] for user in USERS}
        for row, job in enumerate(self.jobs):
            user, name, command = setup.submission(job, row, self.policy, self.options)
            at = start + job.submit_time / self.options.time_scale
            plans[user].append(json.dumps({"job": job.job_id, "at": at, "name": name, "command": command}))
        for user, plan in plans.items():
            self._submit(user, plan)

    def progress(self) -> Progress:
        """Reads what is new; call it about once a second."""
        unfinished = [log for log in self._logs.values() if not log.finished]
        before = [(len(log.runs), log.running) for log in unfinished]
        for log in unfinished:
            log.follow()
        if before != [(len(log.runs), log.running) for log in unfinished]:
            self._moved = time.time()
        self.last_progress = self._count()
        return self.last_progress

    def over(self) -> bool:
        """Every job has finished; or none can any more, because Slurm knows no unfinished job."""
        counts = self.progress()
        self._look_after_processes(counts)
        stalled = counts.submitted == counts.jobs and time.time() - self._moved > STALLED
        if counts.finished < counts.jobs and not (stalled and not self._known_to_slurm()):
            return False
        self.ended = self.ended or time.time()
        return True

    def settle(self) -> None:
        """Wait until Slurm and the controller, too, have seen the end of every job: trainers end a moment before their jobs."""
        deadline = time.monotonic() + SETTLED
        while (self._known_to_slurm() or self.status().get("jobs")) and time.monotonic() < deadline:
            time.sleep(0.2)

    def status(self) -> dict[str, Any]:
        """What the controller publishes; {} when it is busy or there is none."""
        if self.policy not in OURS:
            return {}
        with contextlib.suppress(TiresiasError):
            return ask(self.control_socket, {"op": "status"}, timeout=2.0)
        return {}

    def results(self) -> list[JobResult]:
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
        """What sacct says of every job and run, as `tiresias whatif` reads it. Raises TiresiasError when slurmdbd lags."""
        deadline = time.monotonic() + SETTLED
        while (said := self.cluster.run([*SACCT.split(), "now-1day"]).stdout).count("|Unknown|") or not said:
            if time.monotonic() > deadline:
                raise TiresiasError(f"{self.policy}: slurmdbd has not heard of the end of every job")
            time.sleep(1.0)
        return said

    @property
    def control_socket(self) -> Path:
        """The controller's, as this machine sees it."""
        return Path(f"/proc/{self.cluster.init.pid}/root") / CONTROL_SOCKET

    @property
    def journal(self) -> Path:
        """The controller's state; read it when the controller has stopped."""
        return self.cluster.folder / "lib" / "journal.sqlite"

    def stop_controller(self) -> None:
        """As an admin would: with SIGTERM, and it lifts its holds."""
        if self._controller and self.cluster.alive():
            self.cluster.run(["pkill", "-TERM", "-f", "tiresias controller"], check=False, timeout=20)
            _end(self._controller)

    def start_controller(self, program: Sequence[str] = ("tiresias", "controller", "--config")) -> None:
        """Raises TiresiasError when it does not answer. `program`: what to run with the configuration's path as last argument."""
        command = [*program, f"{FOLDER}/{CONFIG}"]
        self._controller = self._background("controller", command, self.cluster.spec.daemon_user)
        deadline = time.monotonic() + READY
        while not self.status():
            if self._controller.poll() is not None or time.monotonic() > deadline:
                raise TiresiasError(f"the controller does not start: {_last_line(self.folder / 'logs/controller')}")
            time.sleep(0.1)

    @property
    def controller_exit(self) -> int | None:
        """None while it runs; 137 or -9 after SIGKILL, as the program that entered the cluster tells it or follows it."""
        return self._controller.poll() if self._controller else 0

    def kill_controller(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.cluster.run(["pkill", "-KILL", "-f", "tiresias controller"], check=False, timeout=20)
        if self._controller:
            self._controller.wait(20)

    def close(self) -> None:
        """Ends everything; the cluster's folder goes too, unless it is kept to be looked at."""
        with contextlib.suppress(TiresiasError, subprocess.TimeoutExpired):
            self.stop_controller()
        for process in self._processes:
            _end(process)
        if self.keep:
            self.cluster.kill()
        else:
            self.cluster.down()

    # -- inner --------------------------------------------------------------------------------------------------------

    def _bring_up(self, name: str) -> Cluster:
        """Whoever interrupts it does not want the logs."""
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
        self._logs = {job.job_id: JobLog(self.folder / "results" / f"{job.job_id}.jsonl") for job in self.jobs}
        if self.policy in OURS:
            self._make_job_roots()
            self._leave_profiles()
            (self.folder / CONFIG).write_text(setup.controller_config(self.policy, self.options))
            self.start_controller()
        self._warm_up()

    def _warm_up(self) -> None:
        """Compiles once, for each user, what sixty jobs would else compile all at once in their first second."""
        programs = [
            "sandbox.trainer",
            "sandbox.replay.submitter",
            *(("wrappers.tsbatch", "wrappers.supervisor") if self.policy in OURS else ()),
        ]
        imports = "; ".join(f"import tiresias.{program}" for program in programs)
        for user in USERS:
            self.cluster.run(["python3", "-c", imports], user=user)

    def _make_job_roots(self) -> None:
        for name in ("control", "checkpoints"):
            folder = self.cluster.shared / "tiresias" / name
            folder.mkdir(parents=True)
            folder.chmod(0o1777)

    def _leave_profiles(self) -> None:
        root, script = self.cluster.shared / "tiresias" / "control", setup.SCRIPT.encode()
        for user in USERS:
            own = [job for row, job in enumerate(self.jobs) if setup.user_of(job, row) == user]
            kinds = [(setup.name_of(job), setup.model_of(job), job.num_gpus) for job in own]
            profiles.leave(root, UIDS[user], script, kinds)

    def _submit(self, user: str, plan: Sequence[str]) -> None:
        (self.folder / f"plan-{user}.jsonl").write_text("\n".join(plan))
        command = [
            "python3", "-m", "tiresias.sandbox.replay.submitter", f"{FOLDER}/plan-{user}.jsonl", f"{FOLDER}/submitted-{user}.jsonl"
        ]  # fmt: skip
        self._processes.append(self._background(f"submitter-{user}", command, user))

    def _background(self, name: str, command: list[str], user: str) -> subprocess.Popen[Any]:
        environment = {
            "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control", "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints",
        }  # fmt: skip
        with (self.folder / "logs" / name).open("ab") as log:
            return self.cluster.popen(
                command,
                user=user,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _count(self) -> Progress:
        logs = self._logs.values()
        return Progress(
            len(self.jobs), len(self._submitted()), sum(log.running for log in logs), sum(log.finished for log in logs)
        )

    def _submitted(self) -> dict[str, dict[str, Any]]:
        entries = {}
        for user in USERS:
            path = self.folder / f"submitted-{user}.jsonl"
            for line in path.read_text().splitlines() if path.exists() else []:
                with contextlib.suppress(ValueError):  # the last line may be half written
                    entry = json.loads(line)
                    entries[str(entry["job"])] = entry
        return entries

    def _look_after_processes(self, counts: Progress) -> None:
        """Raises TiresiasError when the controller or a submitter has died, or a submission was refused."""
        for process in [*self._processes, self._controller]:
            if process and process.poll() not in (None, 0):
                raise TiresiasError(
                    f"a part of the replay died (exit {process.returncode}); logs: {self.folder / 'logs'}"
                )
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
