"""A private Slurm cluster: start it, run commands in it, stop it.

    cluster = Cluster.up(ClusterSpec(name="mine", nodes=4))
    job = cluster.run(["sbatch", "--parsable", "--gres=gpu:1", "/shared/job.sh"], user="alice").stdout.strip()
    cluster.down()

`up` returns when every node is IDLE. The cluster outlives the Python process: `Cluster.find(name)` gets it again.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError, Unavailable, UsageError
from tiresias.sandbox import host, launch, paths, pyslurm_layer, rootfs
from tiresias.sandbox.atomic import exclusive
from tiresias.sandbox.processes import Process, children
from tiresias.sandbox.provision import provision
from tiresias.sandbox.rootfs import Rootfs
from tiresias.sandbox.slurm_conf import ClusterSpec

Say = Callable[[str], None]
UP_TIMEOUT = 120.0


@dataclass(frozen=True)
class Cluster:
    spec: ClusterSpec
    folder: Path
    rootfs: Rootfs
    launcher: Process
    init: Process
    slurm_version: str
    has_pyslurm: bool
    started: float

    # -- life ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def up(
        spec: ClusterSpec, *, say: Say = lambda line: None, over: Callable[[Rootfs], Rootfs] = lambda tree: tree
    ) -> Cluster:
        """Builds what is missing, starts the cluster and returns when all nodes are IDLE. over: another tree in place of the built
        one, which it resembles.

        Raises UsageError when a cluster of that name runs already or the spec makes no sense, Unavailable or
        TiresiasError when the tree cannot be built or Slurm does not start.
        """
        host.require_tools()
        with host.plainly():
            meanwhile = functools.partial(pyslurm_layer.prefetch, spec.suite)
            tree = rootfs.ensure(spec.suite, accounting=spec.accounting, say=say, meanwhile=meanwhile)
            layer = pyslurm_layer.ensure(tree, say=say)
            cluster = Cluster._start(spec, over(tree), layer)
        try:
            cluster._wait_idle(UP_TIMEOUT)
        except BaseException:
            cluster.kill()
            raise
        return cluster

    @staticmethod
    def find(name: str = "default") -> Cluster:
        cluster = Cluster._load(paths.cluster_folder(name))
        if cluster is None:
            raise UsageError(f"no cluster {name!r} is up: `tiresias sandbox up --name {name}` starts it")
        return cluster

    @staticmethod
    def all() -> list[Cluster]:
        folders = sorted(paths.clusters_folder().glob("*/cluster.json"))
        return [cluster for cluster in map(Cluster._load, (file.parent for file in folders)) if cluster]

    @staticmethod
    def remove_dead(name: str) -> bool:
        """Removes the folder that a cluster left which was killed; False when there is none."""
        folder = paths.cluster_folder(name)
        if not folder.exists():
            return False
        with exclusive(_lock(folder)):
            if Cluster._load(folder) is None:
                host.remove_tree(folder)
        return True

    def down(self) -> None:
        """Stops every process of the cluster and removes its folder, shared files included."""
        self.kill()
        host.remove_tree(self.folder)

    def kill(self) -> None:
        """Ends the cluster as a power cut would; its folder stays for a look at the logs."""
        self.launcher.kill()
        _wait(
            lambda: not self.init.alive(), 30, lambda: f"cluster {self.spec.name!r} does not stop: pid {self.init.pid}"
        )

    def alive(self) -> bool:
        return self.init.alive()

    # -- use ----------------------------------------------------------------------------------------------------------

    def run(
        self, command: Sequence[str], *, user: str = "root", input: str | None = None, timeout: float | None = 60,
        check: bool = True, env: Mapping[str, str] | None = None, cwd: str | None = None,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Runs a command inside as `user` and returns its text output.

        Raises TiresiasError when `check` and it fails, subprocess.TimeoutExpired when it takes longer than `timeout`
        seconds (the command and its children are killed).
        """
        pipe = subprocess.PIPE
        with self.popen(command, user=user, env=env, cwd=cwd, text=True, start_new_session=True,
                        stdin=subprocess.DEVNULL if input is None else pipe, stdout=pipe, stderr=pipe) as process:  # fmt: skip
            try:
                out, err = process.communicate(input, timeout)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if check and process.returncode:
            raise TiresiasError(
                f"{' '.join(command)} in cluster {self.spec.name!r}: exit {process.returncode}: {err.strip() or out.strip()}"
            )
        return subprocess.CompletedProcess(list(command), process.returncode, out, err)

    def popen(
        self,
        command: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        return subprocess.Popen(self.enter(command, user=user, env=env, cwd=cwd), **options)

    def enter(
        self,
        command: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> list[str]:
        """The host command line that runs `command` inside the cluster's namespaces."""
        home = self.rootfs.home(user) if user in rootfs.USERS else "/root" if user == "root" else "/tmp"
        variables = {**launch.environment(user, home), **(env or {})}
        return [
            "nsenter", "--target", str(self.init.pid), "--mount", "--uts", "--ipc", "--net", "--pid",
            *(["--user"] if host.user_namespace() else []),
            "--setuid", str(self.rootfs.uid(user)), "--setgid", str(self.rootfs.gid(user)), f"--wdns={cwd or home}",
            "env", "-i", *(f"{key}={value}" for key, value in variables.items()), *command,
        ]  # fmt: skip

    @property
    def shared(self) -> Path:
        """The host's path of /shared, the cluster's parallel file system."""
        return self.folder / "shared"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    # -- the controller daemon of Slurm, for tests that hurt it ---------------------------------------------------------

    @property
    def slurmctld_pid(self) -> int:
        """Inside the cluster's PID namespace; 0 when it does not run."""
        found = self.run(["pgrep", "-xo", "slurmctld"], check=False).stdout.strip()
        return int(found) if found else 0

    def kill_slurmctld(self, signal_name: str = "KILL") -> None:
        self.run(["pkill", f"-{signal_name}", "-x", "slurmctld"], check=False)
        _wait(lambda: self.slurmctld_pid == 0, 30, lambda: "slurmctld does not end")

    def start_slurmctld(self) -> None:
        """Returns when it answers."""
        self.run(["slurmctld"])
        _wait(
            lambda: self.run(["scontrol", "ping"], check=False).returncode == 0,
            30,
            lambda: f"slurmctld does not answer: {self.last_error()}",
        )

    def restart_slurmctld(self) -> None:
        self.kill_slurmctld("TERM")
        self.start_slurmctld()

    def last_error(self) -> str:
        """The line that most likely says why: the last fatal one, else the last error, else the last of init's own log."""
        for sign in ("fatal:", "error:", ""):
            for log in sorted(self.log.glob("*.log"), key=lambda file: file.stat().st_mtime, reverse=True):
                found = [line for line in log.read_text(errors="replace").splitlines() if sign in line.lower()]
                if found:
                    return f"{log.name}: {found[-1]}"
        return "nothing was logged"

    def node_states(self) -> list[str]:
        """One Slurm state per node; empty while slurmctld does not answer."""
        try:
            return self.run(["sinfo", "-h", "-N", "-p", "gpu", "-o", "%T"], check=False, timeout=3).stdout.split()
        except subprocess.TimeoutExpired:  # it would try for ten seconds
            return []

    # -- inner --------------------------------------------------------------------------------------------------------

    @staticmethod
    def _start(spec: ClusterSpec, tree: Rootfs, layer: Path | None) -> Cluster:
        folder = paths.cluster_folder(spec.name)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(_lock(folder)):
            if Cluster._load(folder) is not None:
                raise UsageError(
                    f"cluster {spec.name!r} is already up: `tiresias sandbox down --name {spec.name}` first"
                )
            host.remove_tree(folder)
            provision(spec, folder)
            return Cluster._launch(spec, tree, folder, layer)

    @staticmethod
    def _launch(spec: ClusterSpec, tree: Rootfs, folder: Path, layer: Path | None) -> Cluster:
        with (folder / "log/init.log").open("wb") as log, (folder / "bwrap.json").open("wb") as info:
            launcher = subprocess.Popen(
                launch.command(spec, tree, folder, layer, info.fileno()), pass_fds=[info.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            )  # fmt: skip
        try:
            init = Process.of(_first_process(launcher, folder))
        except BaseException:
            launcher.kill()
            raise
        has_pyslurm = layer is not None
        cluster = Cluster(
            spec, folder, tree, Process.of(launcher.pid), init, tree.slurm_version, has_pyslurm, time.time()
        )
        cluster._store()
        return cluster

    def _wait_idle(self, seconds: float) -> None:
        def ready() -> bool:
            if not self.alive() or self._daemon_gave_up():
                raise TiresiasError(f"cluster {self.spec.name!r} did not start: {self.last_error()} (logs: {self.log})")
            states = self.node_states()
            return len(states) == self.spec.nodes and all(state == "idle" for state in states)

        def last_state() -> str:
            nodes = dict(Counter(self.node_states()))
            return f"cluster {self.spec.name!r} is not ready: nodes {nodes}: {self.last_error()} (logs: {self.log})"

        _wait(ready, seconds, last_state)

    def _daemon_gave_up(self) -> bool:
        """slurmctld and slurmdbd leave the foreground before they read most of their configuration."""
        logs = (self.log / "slurmctld.log", self.log / "slurmdbd.log")
        return any("fatal:" in log.read_text(errors="replace") for log in logs if log.exists())

    def _store(self) -> None:
        record = {
            "spec": asdict(self.spec), "suite_path": str(self.rootfs.path), "launcher": asdict(self.launcher),
            "init": asdict(self.init), "slurm_version": self.slurm_version, "has_pyslurm": self.has_pyslurm,
            "started": self.started,
        }  # fmt: skip
        unfinished = self.folder / "cluster.json.tmp"
        unfinished.write_text(json.dumps(record, indent=1))
        unfinished.rename(self.folder / "cluster.json")
        (self.folder / "etc/recorded").touch()  # init.sh waits for it

    @staticmethod
    def _load(folder: Path) -> Cluster | None:
        """The running cluster of that folder, None when there is none or it has died."""
        try:
            record = json.loads((folder / "cluster.json").read_text())
        except (FileNotFoundError, ValueError):
            return None
        spec = ClusterSpec(**record["spec"])
        cluster = Cluster(
            spec, folder, Rootfs(spec.suite, Path(record["suite_path"])), Process(**record["launcher"]), Process(**record["init"]),
            record["slurm_version"], record["has_pyslurm"], record["started"],
        )  # fmt: skip
        return cluster if cluster.alive() else None


def _lock(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


def _first_process(launcher: subprocess.Popen[bytes], folder: Path) -> int:
    """The pid, on this machine, of the inner namespace's first process; bwrap writes its file once that exists."""

    def made() -> bool:
        if launcher.poll() is not None:
            log = (folder / "log/init.log").read_text(errors="replace").strip() or "no message"
            raise TiresiasError(f"the cluster's namespaces could not be made: {log.splitlines()[-1]}")
        return "}" in (folder / "bwrap.json").read_text()

    _wait(made, 30, lambda: "bwrap does not start")
    (bwrap,) = children(launcher.pid)
    (init,) = children(bwrap)
    return init


def _wait(done: Callable[[], bool], seconds: float, last_state: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise Unavailable(last_state())
        time.sleep(0.05)
