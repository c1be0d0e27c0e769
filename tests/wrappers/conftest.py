"""Two places for jobs.

site: roots on a temporary disk, and jobs run by hand as slurmd would, with Slurm's variables and signals.
alice: a user of the private cluster, with roots on its shared disk.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import ClassVar

import pytest

from tests.polling import pauses
from tests.wrappers import leftovers
from tiresias.protocol import control
from tiresias.sandbox.cluster import Cluster
from tiresias.wrappers import batch_script, isolated

PYTHON = shlex.quote(sys.executable)
TRAINING = Path(__file__).with_name("training.py")
RANKS = Path(__file__).parents[1] / "checkpoint" / "rank_program.py"
STEPS, PACE = 300, 0.005


class Site:
    """A control root, a checkpoint root, and jobs run by hand as slurmd would. train: the command of a training program."""

    train = f"{PYTHON} {shlex.quote(str(TRAINING))} {STEPS} {PACE} result"

    @staticmethod
    def trained(steps: int = STEPS) -> str:
        """What that program writes to `result` when nothing was lost."""
        number = 1
        for step in range(1, steps + 1):
            number = (number * 6364136223846793005 + step) % 2**61
        return f"{steps} {number}"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.roots = {
            "TIRESIAS_CONTROL_ROOT": str(folder / "control"),
            "TIRESIAS_CHECKPOINT_ROOT": str(folder / "checkpoints"),
        }
        self.started: list[Job] = []

    def start(
        self, script: str, *arguments: str, restart: int = 0, job: str = "7", prefix: Sequence[str] = (), **env: str
    ) -> Job:
        """prefix: the words of a command that runs the batch script, such as unshare(1)."""
        self.started.append(Job(self, f"#!/bin/bash\n{script}\n", arguments, restart, job, env, prefix))
        return self.started[-1]

    def control(self, job: str = "7") -> Path:
        return control.job_folder(self.folder / "control", os.getuid(), job)

    def kill(self) -> None:
        """SIGKILL each process of the jobs, as Slurm does at the end of KillWait."""
        for job in self.started:
            job.process.kill()
        leftovers.end(self.folder, f"TIRESIAS_CONTROL_ROOT={self.folder / 'control'}")
        for job in self.started:
            job.process.wait()


class Job:
    """One run of a job."""

    def __init__(
        self,
        site: Site,
        script: str,
        arguments: tuple[str, ...],
        restart: int,
        job: str,
        env: dict[str, str],
        prefix: Sequence[str],
    ) -> None:
        self.site, self.id, self.restart = site, job, restart
        path = site.folder / f"slurm_script-{restart}"
        path.write_bytes(batch_script.compose(script.encode(), sys.executable, str(isolated.LIBRARY), site.roots | env))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TIRESIAS_", "SLURM_"))}
        slurm = {"SLURM_JOB_ID": job} | ({"SLURM_RESTART_COUNT": str(restart)} if restart else {})
        self.log = site.folder / f"log-{restart}"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*prefix, "/bin/sh", str(path), *arguments],
                env={**inherited, **slurm, **env},
                cwd=site.folder,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def report(self) -> control.JobReport:
        """Return this run's report; an empty one while that of an older run is still there."""
        found = control.report(self.site.folder / "control", os.getuid(), self.id)
        return found if found.restart == self.restart else control.JobReport()

    def until(self, condition: Callable[[control.JobReport], bool], seconds: float = 30) -> Job:
        deadline = time.monotonic() + seconds
        while not condition(self.report()):
            assert time.monotonic() < deadline, f"{self.report()}\n{self.log.read_text()}"
            time.sleep(0.01)
        return self

    def until_logged(self, words: str) -> Job:
        return self.until(lambda report: words in self.log.read_text())

    def preempt(self) -> Job:
        """Signal it once it is ready; returns when it is parked."""
        return (
            self.until(lambda report: report.ready).send(signal.SIGUSR2).until(lambda report: report.state == "parked")
        )

    def send(self, number: int) -> Job:
        self.process.send_signal(number)
        return self

    def end(self) -> int:
        return self.process.wait(timeout=60)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    try:
        yield site
    finally:
        site.kill()


class User:
    """alice, in a folder of her own on the cluster's shared file system."""

    env: ClassVar = {"TIRESIAS_CONTROL_ROOT": "/shared/w/control", "TIRESIAS_CHECKPOINT_ROOT": "/shared/w/checkpoints"}

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.here = f"/shared/w/{name}"
        self.folder = cluster.shared / "w" / name
        cluster.run(["mkdir", "-p", *self.env.values(), self.here])
        cluster.run(["chmod", "1777", *self.env.values(), self.here])
        for program in (TRAINING, RANKS):
            (self.folder / program.name).write_bytes(program.read_bytes())

    def run(self, *words: str, input: str = "") -> CompletedProcess[str]:
        return self.cluster.run(
            list(words), user="alice", check=False, env=self.env, cwd=self.here, input=input, timeout=60
        )

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def submit(self, *words: str, input: str = "") -> str:
        done = self.run("tsbatch", "--parsable", *words, input=input)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def squeue(self, job: str, form: str) -> str:
        return self.run("squeue", "-h", "-j", job, "-o", form).stdout.strip()

    def log(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def report_text(self, job: str) -> str:
        """Return program.json as text."""
        return "".join(path.read_text() for path in self.cluster.shared.glob(f"w/control/*/{job}/program.json"))

    def until(self, condition: Callable[[], bool], state: Callable[[], str], seconds: float = 60) -> None:
        deadline, pause = time.monotonic() + seconds, pauses()
        while not condition():
            assert time.monotonic() < deadline, state()
            pause()

    def until_logged(self, name: str, words: str, seconds: float = 60) -> None:
        self.until(lambda: words in self.log(name), lambda: self.log(name) + self.run("squeue").stdout, seconds)

    def trains(self, job: str) -> None:
        self.until(
            lambda: '"ready": true' in self.report_text(job),
            lambda: f"{self.report_text(job)}{self.run('squeue').stdout}",
        )

    def ask(self, job: str) -> None:
        """The checkpoint signal, as the controller sends it."""
        self.cluster.run(["scancel", "--batch", "--signal=USR2", job])

    def requeue(self, job: str) -> None:
        """As the controller does it: requeue, wait for the end of COMPLETING, make it eligible at once."""
        self.cluster.run(["scontrol", "requeue", job])
        self.comes_back(job)

    def comes_back(self, job: str) -> None:
        """For a job that was requeued from outside: once it is pending, it need not wait two minutes. Before 26.05 slurmd refuses
        the job's launch in the second of the requeue ("already killed, do not launch batch job")."""
        self.until(lambda: "PENDING" in self.squeue(job, "%T"), lambda: self.squeue(job, "%T %r"))
        second = int(time.time())
        self.until(lambda: time.time() >= second + 1.1, lambda: "the clock stands still")
        self.cluster.run(["scontrol", "update", f"job={job}", "StartTime=now"])


@pytest.fixture
def alice(cluster_of: Callable[[str], Cluster], request: pytest.FixtureRequest) -> User:
    """On forky, or on the suite of an indirect parameter."""
    return User(cluster_of(getattr(request, "param", "forky")), re.sub(r"\W", "_", request.node.name))
