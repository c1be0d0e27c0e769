"""A small centre that gets into trouble: the tests' own, with lives.py as its controller, and jobs that record their results.

A job is the sandbox's trainer, whose losses show whether an iteration was lost or done twice; jobs are known by name, for Slurm
gives their ids to others (MaxJobId is small). See run.py and kills.py.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.slurm_plugin.controller.centre import Centre
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.replay.replay_results import JobLog, JobResult
from tiresias.sandbox.slurm_conf import SCHEDULER_PARAMETERS, ClusterSpec
from tiresias.simulator.trace import TraceJob

LIVES = "/opt/tiresias/tests/chaos/lives.py"  # the checkout, as the cluster sees it
TROUBLE = "/run/tiresias/chaos"
SHARED = "/shared/chaos"
USERS = ("alice", "bob")
TRAIN = 'python3 -m tiresias.sandbox.trainer --job "$1${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}" "${@:2}"'
NOTE_DEVICES = (
    'echo "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID} $(date +%s) '
    '$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES" >> '
    f'{SHARED}/devices/"$SLURM_JOB_NAME"'
)  # of each run: devices.py
SCRIPTS = (  # a checkpoint signal kills the second kind, and it takes no notice of how its program ends
    f"#!/bin/bash\n{NOTE_DEVICES}\nexec {TRAIN}\n",
    f"#!/bin/bash\n{NOTE_DEVICES}\n{TRAIN}\necho the script goes on\n",
)
STATE_MEGABYTES = 24
MOUNT = """\
import ctypes, os, sys
place, options = (os.fsencode(word) for word in sys.argv[1:])
if ctypes.CDLL(None, use_errno=True).mount(b"tmpfs", place, b"tmpfs", 0, options):
    sys.exit(os.strerror(ctypes.get_errno()))
"""  # there is no mount(8) in there


@dataclass(slots=True)
class Job:
    """What the driver requested.

    Attributes:
        tasks: Its number of trainers.
        fate: "" or why it need not finish: cancelled, or killed by the campaign.
        plain: Its GPUs, where it requests nothing else.
        foreign: The controller need not manage it.
        tenant, gpus, nodes: Its account, its GPUs and the nodes that it requests, in a campaign with tenants.
        exclusive: It holds all GPUs of its nodes; Slurm's log has the requested ones.
    """

    name: str
    user: str
    command: list[str]
    at: float
    tasks: int = 1
    trains: bool = True
    plain: int = 0
    foreign: bool = False
    fate: str = ""
    tenant: str = ""
    gpus: int = 0
    nodes: int = 0
    exclusive: bool = False


@dataclass(slots=True)
class Submitted:
    id: str
    time: float
    error: str


class Scene(Centre):
    """The centre of tests/slurm_plugin/controller, with a small state disk and a plan for lives.py."""

    shape: Mapping[str, Any] = {"nodes": 4}  # further parameters of the cluster
    further: Mapping[str, str] = {}  # of slurm.conf

    def __init__(self, name: str, plan: dict[str, Any], max_job_id: int, suite: str = "forky", **config: Any) -> None:
        settings = {
            "KillWait": "5",
            "MinJobAge": "5",
            "FirstJobId": "1",
            "MaxJobId": str(max_job_id),
            "Licenses": "scarce:1",
            "SchedulerParameters": f"{SCHEDULER_PARAMETERS},bf_resolution=1",
            "SlurmctldTimeout": "30",
            "MaxJobCount": "15000",
            **self.further,
        }
        spec = ClusterSpec(name=name, suite=suite, accounting=True, settings=settings, **self.shape)
        super().__init__(Cluster.up(spec))
        self.jobs: dict[str, Job] = {}
        self._plan, self._submitters = plan, list[subprocess.Popen[Any]]()
        try:
            self._prepare(config)
        except BaseException:
            self.cluster.down()
            raise

    def _prepare(self, config: dict[str, Any]) -> None:
        self.folder = self.cluster.shared / "chaos"
        for part in ("", "results", "output", "devices"):
            (self.folder / part).mkdir()
            (self.folder / part).chmod(0o1777)
        for number, script in enumerate(SCRIPTS):
            (self.folder / f"job{number}.sh").write_text(script)
        # A slurmctld with associations does not start again ("No Assoc usage file") if it was killed before it wrote that file.
        self.cluster.restart_slurmctld()
        self._config, self.state_inside = self.configure(**config)
        self._mount_state()
        self._warm_up()

    # -- the controller -------------------------------------------------------------------------------------------------

    @property
    def trouble(self) -> Path:
        """The folder that lives.py reads and writes."""
        return self.root / TROUBLE.lstrip("/")

    def begin_lives(self) -> None:
        self.config = self._config
        with (self.cluster.log / "controller.log").open("ab") as log:
            self._process = self.cluster.popen(
                ["python3", LIVES, self._config, TROUBLE, json.dumps(self._plan)],
                user=self.cluster.spec.daemon_user,
                env={"OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.wait_until(lambda: self.status() or self.exit_code is not None, "the controller does not answer")

    def kill_controller(self) -> None:
        with contextlib.suppress(OSError):
            self.cluster.run(["kill", "-KILL", (self.trouble / "pid").read_text()], check=False)

    def hang_up_controller(self) -> None:
        """Order a reload as systemd does."""
        with contextlib.suppress(OSError):
            self.cluster.run(["kill", "-HUP", (self.trouble / "pid").read_text()], check=False)

    def deaths(self) -> list[dict[str, Any]]:
        with contextlib.suppress(OSError):
            return [json.loads(line) for line in (self.trouble / "deaths.jsonl").read_text().splitlines()]
        return []

    def _mount_state(self) -> None:
        """A disk of its own, which can be full."""
        user = self.cluster.spec.daemon_user
        options = f"size={STATE_MEGABYTES}m,uid={self.cluster.rootfs.uid(user)},mode=755"
        self.cluster.run(["mkdir", "-p", self.state_inside])
        words = [self.state_inside, options]
        self.cluster.run(["python3", "-c", MOUNT, *words])

    def _warm_up(self) -> None:
        """Compiles once, for each user, what many jobs would else compile all at once."""
        programs = ("sandbox.trainer", "sandbox.replay.submitter", "wrappers.tsbatch", "wrappers.supervisor")
        imports = "; ".join(f"import tiresias.{program}" for program in programs)
        for user in USERS:
            self.cluster.run(["python3", "-c", imports], user=user)

    # -- jobs -----------------------------------------------------------------------------------------------------------

    def options(self, name: str, gpus: int) -> list[str]:
        return [
            "--parsable", f"--job-name={name}", f"--gpus={gpus}", f"--ntasks={gpus}", "--cpus-per-task=1", "--gpus-per-task=1",
            f"--output={SHARED}/output/{name}", "--open-mode=append", "--chdir=/tmp",
        ]  # fmt: skip

    def trainer(self, name: str, gpus: int, seconds: float, *options: str) -> list[str]:
        """The command that submits a trainer."""
        model = "googlenet"  # a small checkpoint
        script = f"job{zlib.crc32(name.encode()) % len(SCRIPTS)}.sh"
        return [
            "tsbatch", *self.options(name, gpus), *options, f"{SHARED}/{script}", name, "--model", model, "--gpus", str(gpus),
            "--seconds", str(seconds), "--checkpoint-every", "3", "--results", f"{SHARED}/results", "--no-placement-effect",
        ]  # fmt: skip

    def submit_all(self, jobs: Sequence[Job]) -> None:
        """Each at its moment, by one process for each user."""
        self.jobs |= {job.name: job for job in jobs}
        for user in USERS:
            own = [job for job in jobs if job.user == user]
            lines = [
                json.dumps({"job": job.name, "at": job.at, "name": job.name, "command": job.command}) for job in own
            ]
            (self.folder / f"plan-{user}.jsonl").write_text("\n".join(lines))
            self._submitters.append(self._submitter(user))

    def _submitter(self, user: str) -> subprocess.Popen[Any]:
        roots = {
            "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control",
            "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints",
        }
        words = [f"{SHARED}/plan-{user}.jsonl", f"{SHARED}/submitted-{user}.jsonl"]
        with (self.cluster.log / f"submitter-{user}.log").open("ab") as log:
            return self.cluster.popen(
                ["python3", "-m", "tiresias.sandbox.replay.submitter", *words],
                user=user,
                env=roots,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def all_submitted(self) -> bool:
        return all(process.poll() is not None for process in self._submitters)

    def submitted(self) -> dict[str, Submitted]:
        found = {}
        for user in USERS:
            path = self.folder / f"submitted-{user}.jsonl"
            for line in path.read_text().splitlines() if path.exists() else []:
                with contextlib.suppress(ValueError):  # the last line may be half written
                    entry = json.loads(line)
                    found[str(entry["job"])] = Submitted(str(entry["id"]), float(entry["time"]), str(entry["error"]))
        return found

    def queue(self) -> list[dict[str, str]]:
        """What Slurm has not ended. Raises when it does not answer in time."""
        names = ("id", "raw", "name", "user", "state", "reason", "priority")
        lines = self.cluster.run(["squeue", "-h", "-r", "-o", "%i|%A|%j|%u|%T|%r|%Q"], timeout=15).stdout.splitlines()
        return [dict(zip(names, line.split("|"), strict=True)) for line in lines]

    def journal(self) -> Path:
        """A copy, of a controller that has stopped: SQLite does not find its way through /proc/PID/root."""
        self.cluster.run(
            ["sh", "-c", f"cp -r {self.state_inside} /var/log/slurm/state && chmod -R a+rX /var/log/slurm/state"]
        )
        return self.cluster.log / "state" / "journal.sqlite"

    def results(self) -> list[JobResult]:
        """Of all trainers whose submission was accepted; `id` is the name."""
        accepted = self.submitted()
        return [
            self._result(name, accepted[job.name])
            for job in self.jobs.values()
            if job.trains and job.name in accepted and not accepted[job.name].error
            for name in tasks(job)
        ]

    def _result(self, name: str, entry: Submitted) -> JobResult:
        log = JobLog(self.folder / "results" / f"{name}.jsonl")
        log.follow()
        job = TraceJob(job_id=name, submit_time=entry.time, num_gpus=1, duration=1.0)
        return JobResult(job, name, entry.time, tuple(log.runs), log.finish, log.steps, log.curve)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.stop("KILL")
        self.cluster.down()


def task_name(number: str, name: str) -> str:
    """Return the name of a task of an array by its id, "7_2", and of any other job its own."""
    return f"{name}_{number.rpartition('_')[2]}" if name and "_" in number else name


def tasks(job: Job) -> list[str]:
    return [job.name] if job.tasks == 1 else [f"{job.name}_{number}" for number in range(job.tasks)]
