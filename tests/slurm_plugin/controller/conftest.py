"""A centre: the private cluster, the controller as its own process, and what users and admins do there.

One cluster for the session and one controller at a time. A test that takes `centre` finds a controller with the usual
configuration on its feet; `centre.restart(...)` changes it, and the next test gets a fresh one.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tiresias.errors import TiresiasError, Unavailable
from tiresias.sandbox import rootfs
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.slurm_plugin.sockets.control_socket import ask

TRAIN = "/opt/tiresias/tests/slurm_plugin/controller/train.py"  # the checkout, as the cluster sees it
ROOTS = {
    "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control", "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints"
}  # fmt: skip
USUAL: dict[str, dict[str, Any]] = {
    "": {"mode": "exact", "partitions": ["gpu"], "period": 0.5, "poll": 0.05},
    "paths": {"run": "/run/tiresias", "control": ROOTS["TIRESIAS_CONTROL_ROOT"], "checkpoints": ROOTS["TIRESIAS_CHECKPOINT_ROOT"]},
    "policy": {"name": "las", "thresholds": [6.0], "min_run": 1.0, "min_run_cost_factor": 0.0},
    "preemption": {"deadline": 20.0, "start_timeout": 3.0, "backoff": 1.0},
    "placement": {},
}  # fmt: skip
PATIENCE = 60.0
_numbers = itertools.count()


class Centre:
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
        """A configuration with a state folder of its own; both paths inside. changes: backend="commands", policy={"min_run": 9}."""
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
        (self.cluster.shared / f"{number}.toml").write_text("\n".join(lines))
        return f"/shared/{number}.toml", str(options["paths"]["state"])

    def start(
        self,
        config: str,
        program: Sequence[str] = ("tiresias", "controller", "--config"),
        env: dict[str, str] | None = None,
    ) -> None:
        """Returns when it has seen Slurm once."""
        self.config = config
        with (self.cluster.log / "controller.log").open("ab") as log:
            self._process = self.cluster.popen(
                [*program, config], user=self.cluster.spec.daemon_user, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.until(lambda: self.status() or self.exit_code is not None, "the controller does not answer")
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
        """The controller's exit code."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        if process.poll() is None:
            _signal(process, how)
            process.send_signal(
                signal.SIGCONT
            )  # nsenter, which stops with what it has entered (see freeze) and then reaps nothing
        try:
            return process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            _signal(process, "KILL")
            raise AssertionError("\n".join(["the controller does not stop", *self.log()[-15:]])) from None

    def freeze(self) -> None:
        """As a virtual machine that stands still."""
        assert self._process
        _signal(self._process, "STOP")

    def hang_up(self) -> None:
        assert self._process
        _signal(self._process, "HUP")

    def thaw(self) -> None:
        assert self._process
        _signal(self._process, "CONT")
        self._process.send_signal(signal.SIGCONT)  # nsenter stops with what it has entered

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process else 0

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`tiresias WORDS` as the daemon's user."""
        return self.cluster.run(["tiresias", *words], user=self.cluster.spec.daemon_user, check=False)

    def log(self) -> list[str]:
        return (self.cluster.log / "controller.log").read_text(errors="replace").splitlines()

    # -- what it says ---------------------------------------------------------------------------------------------------

    def ask(self, **request: Any) -> dict[str, Any]:
        return ask(self.root / "run/tiresias/control.sock", request, timeout=5.0)

    def status(self) -> dict[str, Any]:
        """{} while nobody answers."""
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

    def said(self, job: str, action: str) -> list[str]:
        """The reasons of all decisions of that kind on a job, newest first."""
        return [one["why"] for one in self.explain(job).get("decisions", ()) if one["action"] == action]

    def why(self, job: str) -> str:
        return str(self.explain(job).get("job", {}).get("why", ""))

    def cycles(self, count: int = 2) -> None:
        """Until that many more cycles have been made: whatever it was going to do at once, it has done."""
        goal = self.status()["cycle"]["count"] + count
        self.until(lambda: self.status()["cycle"]["count"] >= goal, "the controller makes no cycles")

    # -- users and admins -----------------------------------------------------------------------------------------------

    def submit(
        self, *options: str, command: str = "sleep 300", gpus: int = 1, user: str = "alice", by: str = "sbatch",
        env: dict[str, str] | None = None,
    ) -> str:  # fmt: skip
        """A job of so many tasks with a GPU and a CPU each; its id."""
        size = [f"--gpus={gpus}", f"--ntasks={gpus}", "--gpus-per-task=1"] if gpus else []
        words = [by, "--parsable", *size, "--output=/shared/out/%j", "--chdir=/tmp", *options, "--wrap", command]
        return self.cluster.run(words, user=user, env=ROOTS | (env or {})).stdout.strip()

    @contextmanager
    def srun(self, *words: str, user: str = "alice") -> Iterator[str]:
        """An srun allocation in the background; its job id."""
        process = self.cluster.popen(
            ["srun", "--job-name=srun", *words], user=user, cwd="/tmp", stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        find = ["squeue", "-h", "--name=srun", "-o", "%A"]
        job = self.until(lambda: self.cluster.run(find).stdout.strip(), "srun does not come")
        try:
            yield job
        finally:
            self.cancel(job, user=user)
            process.wait(PATIENCE)

    def train(self, *options: str, seconds: float = 60.0, habit: str = "good", **more: Any) -> str:
        """A job that can be preempted."""
        return self.submit(*options, command=f"exec python3 {TRAIN} {seconds} {habit}", by="tsbatch", **more)

    def trains(self, job: str) -> None:
        """Until it runs and has said that it can save."""
        self.until(lambda: self.published(job).get("preemptable"), f"job {job} cannot be preempted", job)

    def published(self, job: str) -> dict[str, Any]:
        return next((one for one in self.status().get("jobs", ()) if one["id"] == job), {})

    def scontrol(self, *words: str, user: str = "slurm", check: bool = True) -> str:
        return self.cluster.run(["scontrol", *words], user=user, check=check).stdout

    def cancel(self, *jobs: str, user: str = "alice") -> None:
        self.cluster.run(["scancel", *jobs], user=user)

    def show(self, job: str) -> dict[str, str]:
        """Slurm's own record, {} when it has none."""
        return dict(re.findall(r"(\w+)=(\S*)", self.scontrol("show", "job", "-o", job, check=False)))

    def state(self, job: str) -> str:
        return self.show(job).get("JobState", "")

    def output(self, job: str) -> str:
        with suppress(FileNotFoundError):
            return (self.cluster.shared / "out" / job).read_text(errors="replace")
        return ""

    # -- waiting --------------------------------------------------------------------------------------------------------

    def until(self, ready: Callable[[], Any], words: str, *jobs: str, seconds: float = PATIENCE) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := ready()):
            if time.monotonic() > deadline:
                raise AssertionError("\n".join([words, *self.last_state(jobs)]))
            time.sleep(0.05)
        return found

    def reaches(self, job: str, *states: str, seconds: float = PATIENCE) -> dict[str, str]:
        self.until(lambda: self.state(job) in states, f"job {job} is not {' or '.join(states)}", job, seconds=seconds)
        return self.show(job)

    def last_state(self, jobs: Sequence[str]) -> list[str]:
        queue = self.cluster.run(["squeue", "-o", "%i %T %r %Q %N %S"], check=False).stdout.splitlines()
        return [*queue, *(str(self.published(job)) for job in jobs), *self.log()[-15:]]

    def clean(self) -> None:
        """No job of the last test stays, not even one that is being requeued."""
        deadline = time.monotonic() + PATIENCE
        while left := self.cluster.run(["squeue", "-h", "-o", "%A"]).stdout.split():
            assert time.monotonic() < deadline, f"jobs of the last test do not end: {left}"
            self.cluster.run(["scancel", "--quiet", "--signal=KILL", "--full", *left], check=False)
            self.cluster.run(["scancel", "--quiet", *left], check=False)


def _signal(process: subprocess.Popen[Any], name: str) -> None:
    """To the program under nsenter, which waits for it in the cluster's PID namespace."""
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(child), signal.Signals[f"SIG{name}"])


def _toml(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, repr(value)) if isinstance(value, bool) else repr(value)


@pytest.fixture(scope="session")
def centre_of() -> Iterator[Callable[..., Centre]]:
    """One for each suite and set of other options of ClusterSpec, at its first use."""
    centres: dict[str, Centre] = {}

    def get(suite: str, **options: Any) -> Centre:
        key = f"{suite}{sorted(options.items())}"
        if key not in centres:
            settings = {"KillWait": "5", **options.pop("settings", {})}
            name = f"controller-{suite}-{len(centres)}-{os.getpid()}"
            centres[key] = Centre(
                Cluster.up(ClusterSpec(**{"name": name, "suite": suite, "nodes": 4, **options, "settings": settings}))
            )
        return centres[key]

    yield get
    for centre in centres.values():
        centre.stop("KILL")
        centre.cluster.down()


@pytest.fixture
def centre_of_this_python(centre_of: Callable[..., Centre]) -> Callable[[], Centre]:
    """The centre whose Python is this one's version, with this environment's packages in /shared/packages."""

    def get() -> Centre:
        own = f"{sys.version_info[0]}.{sys.version_info[1]}."
        suite = next((suite for suite in rootfs.SUITES if rootfs.ensure(suite).python_version.startswith(own)), None)
        if suite is None:
            pytest.skip(f"no suite has Python {own[:-1]}, which PyTorch is installed for")
        centre = centre_of(suite)
        if not (packages := centre.cluster.shared / "packages").exists():
            shutil.copytree(sysconfig.get_path("purelib"), packages, copy_function=_link)
        return centre

    return get


def _link(source: str, target: str) -> None:
    """Hundreds of megabytes: a second name where the file system allows one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture
def centre(centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    centre = centre_of("forky")
    centre.ready()
    yield centre
    centre.clean()


OTHERS = [pytest.param(f"commands@{suite}", marks=pytest.mark.long) for suite in ("forky", "trixie", "bookworm")]


@pytest.fixture(params=["pyslurm@forky", *OTHERS])
def any_centre(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """With each back end, and on each generation of Slurm. `make test` has all of them in test_controller_backends.py, and here
    the first."""
    backend, suite = request.param.split("@")
    centre = centre_of(suite)
    centre.restart(backend=backend, comment={"interval": 1.0})
    yield centre
    centre.clean()
