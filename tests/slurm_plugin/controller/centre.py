"""A centre: the private cluster, the controller as its own process, and the operations of users and administrators there."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.polling import pauses
from tiresias.errors import TiresiasError, Unavailable
from tiresias.sandbox.cluster import Cluster
from tiresias.slurm_plugin.sockets.control_client import ask

T = TypeVar("T")
TRAIN = "/opt/tiresias/tests/slurm_plugin/controller/train.py"  # the checkout, as the cluster sees it
ROOTS = {
    "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control",
    "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints",
}
USUAL: dict[str, dict[str, Any]] = {
    "": {"mode": "exact", "partitions": ["gpu"], "period": 0.5, "poll": 0.05},
    "paths": {
        "run": "/run/tiresias",
        "control": ROOTS["TIRESIAS_CONTROL_ROOT"],
        "checkpoints": ROOTS["TIRESIAS_CHECKPOINT_ROOT"],
    },
    "policy": {"name": "las", "thresholds": [6.0], "min_run": 1.0, "min_run_cost_factor": 0.0},
    "preemption": {"deadline": 20.0, "start_timeout": 3.0, "backoff": 1.0},
    "placement": {"failing_nodes": "show"},  # tests that share a cluster let jobs fail
}
TIMEOUT_S = 60.0
_numbers = itertools.count()


class Centre:
    """A running cluster and at most one controller on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.root = Path(f"/proc/{cluster.init.pid}/root")
        self._process: subprocess.Popen[Any] | None = None
        self.usual = True
        for folder in ("tiresias", "tiresias/control", "tiresias/checkpoints", "out"):
            (cluster.shared / folder).mkdir(exist_ok=True)
            (cluster.shared / folder).chmod(0o1777)

    # -- the controller -------------------------------------------------------------------------------------------------

    def configure(self, **changes: Any) -> tuple[str, str]:
        """Write a configuration with its own state folder; return the paths of both in the cluster.

        Args:
            changes: Changed options, such as backend="commands", policy={"min_run": 9}; virtual_clusters: the tables of
                virtual clusters.
        """
        tables: Sequence[dict[str, Any]] = changes.pop("virtual_clusters", ())
        number = next(_numbers)
        options = {section: dict(keys) for section, keys in USUAL.items()}
        options["paths"]["state"] = f"/var/lib/tiresias/{number}"
        for name, value in changes.items():
            options.setdefault(name if isinstance(value, dict) else "", {}).update(
                value if isinstance(value, dict) else {name: value}
            )
        lines = [
            f"{f'[{section}]' if section else ''}\n" + "\n".join(f"{key} = {_toml(one)}" for key, one in keys.items())
            for section, keys in options.items()
        ]
        (self.cluster.shared / f"{number}.toml").write_text("\n".join(lines) + table_text(tables))
        return f"/shared/{number}.toml", str(options["paths"]["state"])

    def change_virtual_clusters(self, virtual_clusters: Sequence[dict[str, Any]]) -> None:
        """Write other tables [[virtual_cluster]] into the configuration of the running controller."""
        file = self.cluster.shared / self.config.rpartition("/")[2]
        new = file.with_suffix(".new")  # a controller that starts meanwhile reads the whole file before or after
        new.write_text(file.read_text().partition("\n[[")[0] + table_text(virtual_clusters))
        new.replace(file)

    def start(
        self,
        config: str,
        program: Sequence[str] = ("tiresias", "controller", "--config"),
        env: dict[str, str] | None = None,
    ) -> None:
        """Start a controller; return after its first cycle: in mode exact job_submit.lua then delays new jobs."""
        self.config = config
        with (self.cluster.log / "controller.log").open("ab") as log:
            self._process = self.cluster.popen(
                [*program, config],
                user=self.cluster.spec.daemon_user,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.wait_until(lambda: self.status() or self.exit_code is not None, "the controller does not answer")
        assert self.exit_code is None, self.log()[-1]

    def restart(self, **changes: Any) -> None:
        self.stop()
        self.start(self.configure(**changes)[0])
        self.usual = False

    def ready(self) -> None:
        if not self.usual or self._process is None or self.exit_code is not None:
            self.stop()
            self.start(self.configure()[0])
            self.usual = True

    def stop(self, how: str = "TERM") -> int:
        """End the controller by a signal; return its exit code."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        if process.poll() is None:
            _signal(process, how)
            process.send_signal(
                signal.SIGCONT
            )  # nsenter, which stops with its child (see freeze) and then does not wait for it
        try:
            return process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _signal(process, "KILL")
            raise AssertionError("\n".join(["the controller does not stop", *self.log()[-15:]])) from None

    def freeze(self) -> None:
        """Stop the controller's process, as when a virtual machine is suspended."""
        assert self._process
        _signal(self._process, "STOP")

    def is_frozen(self) -> bool:
        """Return whether the controller's process is stopped."""
        assert self._process
        return all(_state(child) == "T" for child in _children(self._process))

    def send_hup(self) -> None:
        assert self._process
        _signal(self._process, "HUP")

    def thaw(self) -> None:
        assert self._process
        _signal(self._process, "CONT")
        self._process.send_signal(signal.SIGCONT)  # nsenter stops with its child

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process else 0

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`tiresias WORDS` as the daemon's user."""
        return self.cluster.run(["tiresias", *words], user=self.cluster.spec.daemon_user, check=False)

    def log(self) -> list[str]:
        return (self.cluster.log / "controller.log").read_text(errors="replace").splitlines()

    # -- its answers ---------------------------------------------------------------------------------------------------

    def ask(self, **request: Any) -> dict[str, Any]:
        return ask(self.root / "run/tiresias/control.sock", request, timeout=5.0)

    def status(self) -> dict[str, Any]:
        """Return the published status; {} while no controller answers."""
        with suppress(TiresiasError):
            return self.ask(op="status")
        return {}

    def explain(self, job: str) -> dict[str, Any]:
        try:
            return self.ask(op="explain", job=job)
        except Unavailable:
            raise
        except TiresiasError as error:
            return {"error": str(error)}

    def reasons(self, job: str, action: str) -> list[str]:
        """Return the reasons of all decisions of that kind on a job, newest first."""
        return [one["why"] for one in self.explain(job).get("decisions", ()) if one["action"] == action]

    def why(self, job: str) -> str:
        return str(self.explain(job).get("job", {}).get("why", ""))

    @property
    def journal_file(self) -> Path:
        """The controller's journal."""
        config = (self.cluster.shared / self.config.rpartition("/")[2]).read_text()
        number = config.partition("state = '/var/lib/tiresias/")[2].partition("'")[0]
        return self.cluster.folder / "lib" / number / "journal.sqlite"

    def query_journal(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query to the controller's journal."""
        with closing(sqlite3.connect(f"file:{self.journal_file}?mode=ro", uri=True)) as db:
            return db.execute(query).fetchall()

    def wait_for_cycles(self, count: int = 2) -> None:
        """Wait for that many more cycles, which include everything that the controller does without a wait."""
        goal = self.status()["cycle"]["count"] + count
        self.wait_until(lambda: self.status()["cycle"]["count"] >= goal, "the controller runs no cycles")

    # -- users and admins -----------------------------------------------------------------------------------------------

    def submit(
        self,
        *options: str,
        command: str = "sleep 300",
        gpus: int = 1,
        user: str = "alice",
        by: str = "sbatch",
        env: dict[str, str] | None = None,
    ) -> str:
        """Submit a job of `gpus` tasks with a GPU and a CPU each; return its id."""
        size = [f"--gpus={gpus}", f"--ntasks={gpus}", "--gpus-per-task=1"] if gpus else []
        words = [by, "--parsable", *size, "--output=/shared/out/%j", "--chdir=/tmp", *options, "--wrap", command]
        return self.cluster.run(words, user=user, env=ROOTS | (env or {})).stdout.strip()

    @contextmanager
    def srun(self, *words: str, user: str = "alice") -> Iterator[str]:
        """Run srun in the background; yield its job id."""
        process = self.cluster.popen(
            ["srun", "--job-name=srun", *words],
            user=user,
            cwd="/tmp",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        find = ["squeue", "-h", "--name=srun", "-o", "%A"]
        job = self.wait_until(lambda: self.cluster.run(find).stdout.strip(), "there is no job of srun")
        try:
            yield job
        finally:
            self.cancel(job, user=user)
            process.wait(TIMEOUT_S)

    def train(
        self,
        *options: str,
        seconds: float = 60.0,
        habit: str = "good",
        until_preempted: bool = False,
        end: str = "",
        **more: Any,
    ) -> str:
        """Submit a job that can be preempted; `habit`, `until_preempted` and `end` as in train.py."""
        words = [str(seconds), habit, "until-preempted" if until_preempted else end]
        return self.submit(*options, command=f"exec python3 {TRAIN} {' '.join(words)}", by="tsbatch", **more)

    @contextmanager
    def slow_node(self, node: str) -> Iterator[None]:
        """Have the steps of train.py take longer on a node, as its habits state."""
        file = self.cluster.shared / "slow"
        file.write_text(node)
        file.chmod(0o644)
        try:
            yield
        finally:
            file.unlink()

    def wait_until_preemptable(self, job: str) -> None:
        """Wait until the job runs and has reported that it can save."""
        self.wait_until(lambda: self.published(job).get("preemptable"), f"job {job} cannot be preempted", job)

    def published(self, job: str) -> dict[str, Any]:
        """Return the job in the published status; {} if it is not there."""
        return next((one for one in self.status().get("jobs", ()) if one["id"] == job), {})

    def scontrol(self, *words: str, user: str = "slurm", check: bool = True) -> str:
        return self.cluster.run(["scontrol", *words], user=user, check=check).stdout

    def cancel(self, *jobs: str, user: str = "alice") -> None:
        self.cluster.run(["scancel", *jobs], user=user)

    def show(self, job: str) -> dict[str, str]:
        """Return Slurm's record; {} if there is none."""
        return dict(re.findall(r"(\w+)=(\S*)", self.scontrol("show", "job", "-o", job, check=False)))

    def state(self, job: str) -> str:
        return self.show(job).get("JobState", "")

    def output(self, job: str) -> str:
        with suppress(FileNotFoundError):
            return (self.cluster.shared / "out" / job).read_text(errors="replace")
        return ""

    # -- waiting --------------------------------------------------------------------------------------------------------

    def wait_until(self, condition: Callable[..., T], message: str, *jobs: str, seconds: float = TIMEOUT_S) -> T:
        """Wait until the condition is true and return its value; else fail with the message and the state of the jobs."""
        deadline, pause = time.monotonic() + seconds, pauses()
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError("\n".join([message, *self.last_state(jobs)]))
            pause()
        return found

    def wait_for_state(self, job: str, *states: str, seconds: float = TIMEOUT_S) -> dict[str, str]:
        """Wait until the job is in one of the states; return Slurm's record."""
        self.wait_until(
            lambda: self.state(job) in states, f"job {job} is not {' or '.join(states)}", job, seconds=seconds
        )
        return self.show(job)

    def last_state(self, jobs: Sequence[str]) -> list[str]:
        listing = ["squeue", "--states=all", "--sort=-i", "-o", "%i %T %r %Q %N %S"]
        newest = self.cluster.run(listing, check=False).stdout.splitlines()[:30]
        return [*newest, *(str(self.published(job)) for job in jobs), *self.log()[-15:]]

    def clean(self) -> None:
        """Cancel all jobs, also those that are being requeued, and wait for their end."""
        deadline, pause = time.monotonic() + TIMEOUT_S, pauses()
        while left := self.cluster.run(["squeue", "-h", "-o", "%A"]).stdout.split():
            assert time.monotonic() < deadline, f"jobs of the last test do not end: {left}"
            self.cluster.run(["scancel", "--quiet", "--signal=KILL", "--full", *left], check=False)
            self.cluster.run(["scancel", "--quiet", *left], check=False)
            pause()


def _signal(process: subprocess.Popen[Any], name: str) -> None:
    """Send a signal to the program under nsenter, which waits for it in the cluster's PID namespace."""
    for child in _children(process):
        os.kill(child, signal.Signals[f"SIG{name}"])


def _children(process: subprocess.Popen[Any]) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def _state(pid: int) -> str:
    """Return the state of a process as proc(5) has it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def with_backend(centre_of: Callable[..., Centre], name: str) -> Iterator[Centre]:
    """Yield a centre whose controller uses a back end, such as commands@bookworm: the back end and the suite."""
    backend, suite = name.split("@")
    centre = centre_of(suite)
    centre.restart(backend=backend)
    yield centre
    centre.clean()
    centre.stop()


def table_text(virtual_clusters: Sequence[dict[str, Any]]) -> str:
    """Return tables [[virtual_cluster]]."""
    return "".join(
        "\n[[virtual_cluster]]\n" + "\n".join(f"{key} = {_toml(value)}" for key, value in table.items())
        for table in virtual_clusters
    )


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return f"[{', '.join(map(_toml, value))}]"
    return {True: "true", False: "false"}.get(value, repr(value)) if isinstance(value, bool) else repr(value)
