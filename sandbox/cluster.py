"""A private Slurm cluster: start it, run commands in it, stop it.

    cluster = Cluster.up(ClusterSpec(name="mine", nodes=4))
    job = cluster.run(["sbatch", "--parsable", "--gres=gpu:1", "/shared/job.sh"], user="alice").stdout.strip()
    cluster.down()

`up` returns when every node is IDLE. The cluster outlives the Python process: `Cluster.find(name)` returns it again.
"""

from __future__ import annotations

import functools
import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tiresias.errors import TiresiasError, UsageError
from tiresias.sandbox import host, launch, paths, pyslurm_layer, rootfs
from tiresias.sandbox.atomic import exclusive
from tiresias.sandbox.cluster_process import ClusterProcess
from tiresias.sandbox.commands_inside import CommandsInside
from tiresias.sandbox.provision import provision
from tiresias.sandbox.rootfs import Rootfs
from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.sandbox.startup import first_process, wait_until

Report = Callable[[str], None]
START_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Cluster(CommandsInside):
    """A running cluster.

    Attributes:
        spec: its parameters
        folder: configuration, logs and shared files
        rootfs: the Debian tree
        launcher: the process whose death ends the cluster
        init: the first process inside
        slurm_version: Slurm's version
        has_pyslurm: whether pyslurm can be imported inside
        started: epoch seconds
    """

    spec: ClusterSpec
    folder: Path
    rootfs: Rootfs
    launcher: ClusterProcess
    init: ClusterProcess
    slurm_version: str
    has_pyslurm: bool
    started: float

    # -- life ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def up(
        spec: ClusterSpec, *, report: Report = lambda line: None, over: Callable[[Rootfs], Rootfs] = lambda tree: tree
    ) -> Cluster:
        """Build what is missing, start the cluster and return when all nodes are IDLE.

        Args:
            spec: the parameters
            report: receives lines for the user
            over: replaces the built tree by another tree that resembles it

        Raises:
            UsageError: a cluster of that name is running, or the spec is invalid.
            Unavailable: no network or disk space.
            TiresiasError: the tree cannot be built or Slurm does not start.
        """
        host.require_tools()
        with host.one_line_errors():
            meanwhile = functools.partial(pyslurm_layer.prefetch, spec.suite)
            tree = rootfs.ensure(spec.suite, accounting=spec.accounting, report=report, meanwhile=meanwhile)
            layer = pyslurm_layer.ensure(tree, report=report)
            cluster = Cluster._start(spec, over(tree), layer)
        try:
            cluster._wait_idle(START_TIMEOUT_S)
        except BaseException:
            cluster.kill()
            raise
        return cluster

    @staticmethod
    def find(name: str = "default") -> Cluster:
        """Return a running cluster.

        Raises:
            UsageError: there is none of that name.
        """
        cluster = Cluster._load(paths.cluster_folder(name))
        if cluster is None:
            raise UsageError(f"no cluster {name!r} is running: `tiresias sandbox up --name {name}` starts it")
        return cluster

    @staticmethod
    def all() -> list[Cluster]:
        """Return all running clusters of this user."""
        folders = sorted(paths.clusters_folder().glob("*/cluster.json"))
        return [cluster for cluster in map(Cluster._load, (file.parent for file in folders)) if cluster]

    @staticmethod
    def remove_dead(name: str) -> bool:
        """Remove the folder that a killed cluster left; return False if there is none."""
        folder = paths.cluster_folder(name)
        if not folder.exists():
            return False
        with exclusive(_lock(folder)):
            if Cluster._load(folder) is None:
                host.remove_tree(folder)
        return True

    def down(self) -> None:
        """Stop every process of the cluster and remove its folder, shared files included."""
        self.kill()
        host.remove_tree(self.folder)

    def kill(self) -> None:
        """End the cluster as a power failure would; its folder with the logs stays."""
        self.launcher.kill()
        wait_until(
            lambda: not self.init.alive(), 30, lambda: f"cluster {self.spec.name!r} does not stop: pid {self.init.pid}"
        )
        if self.spec.memory_limits:
            host.remove_memory_cgroup(self.spec.name)

    def alive(self) -> bool:
        """Return whether the cluster runs."""
        return self.init.alive()

    @property
    def shared(self) -> Path:
        """The host's path of /shared, the cluster's parallel file system."""
        return self.folder / "shared"

    @property
    def log(self) -> Path:
        """The host's path of the logs."""
        return self.folder / "log"

    # -- slurmctld, for tests that stop it ------------------------------------------------------------------------------

    @property
    def slurmctld_pid(self) -> int:
        """Pid inside the cluster's namespace; 0 if slurmctld does not run."""
        found = self.run(["pgrep", "-xo", "slurmctld"], check=False).stdout.strip()
        return int(found) if found else 0

    def kill_slurmctld(self, signal_name: str = "KILL") -> None:
        """Send a signal to slurmctld and wait for its end."""
        self.run(["pkill", f"-{signal_name}", "-x", "slurmctld"], check=False)
        wait_until(lambda: self.slurmctld_pid == 0, 30, lambda: "slurmctld does not end")

    def start_slurmctld(self) -> None:
        """Start slurmctld and wait until it answers."""
        self.run(["slurmctld"])
        wait_until(
            lambda: self.run(["scontrol", "ping"], check=False).returncode == 0,
            30,
            lambda: f"slurmctld does not answer: {self.last_error()}",
        )

    def restart_slurmctld(self) -> None:
        """Stop and start slurmctld."""
        self.kill_slurmctld("TERM")
        self.start_slurmctld()

    def last_error(self) -> str:
        """Return the most relevant log line: the last fatal one, else the last error, else the last line of any log."""
        for sign in ("fatal:", "error:", ""):
            for log in sorted(self.log.glob("*.log"), key=lambda file: file.stat().st_mtime, reverse=True):
                found = [line for line in log.read_text(errors="replace").splitlines() if sign in line.lower()]
                if found:
                    return f"{log.name}: {found[-1]}"
        return "nothing was logged"

    def node_states(self) -> list[str]:
        """Return one Slurm state per node; empty while slurmctld does not answer."""
        try:
            return self.run(["sinfo", "-h", "-N", "-p", "gpu", "-o", "%T"], check=False, timeout=3).stdout.split()
        except subprocess.TimeoutExpired:  # sinfo retries for ten seconds
            return []

    # -- inner --------------------------------------------------------------------------------------------------------

    @staticmethod
    def _start(spec: ClusterSpec, tree: Rootfs, layer: Path | None) -> Cluster:
        folder = paths.cluster_folder(spec.name)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(_lock(folder)):
            if Cluster._load(folder) is not None:
                raise UsageError(
                    f"cluster {spec.name!r} is already running: `tiresias sandbox down --name {spec.name}` first"
                )
            host.remove_tree(folder)
            provision(spec, folder)
            return Cluster._launch(spec, tree, folder, layer)

    @staticmethod
    def _launch(spec: ClusterSpec, tree: Rootfs, folder: Path, layer: Path | None) -> Cluster:
        with (folder / "log/init.log").open("wb") as log, (folder / "bwrap.json").open("wb") as info:
            launcher = subprocess.Popen(
                launch.command(spec, tree, folder, layer, info.fileno()),
                pass_fds=[info.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        try:
            init = ClusterProcess.of(first_process(launcher, folder))
        except BaseException:
            launcher.kill()
            raise
        has_pyslurm = layer is not None
        cluster = Cluster(
            spec, folder, tree, ClusterProcess.of(launcher.pid), init, tree.slurm_version, has_pyslurm, time.time()
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

        wait_until(ready, seconds, last_state)

    def _daemon_gave_up(self) -> bool:
        """Return whether slurmctld or slurmdbd ended after it became a daemon, when most of the configuration is read."""
        logs = (self.log / "slurmctld.log", self.log / "slurmdbd.log")
        return any("fatal:" in log.read_text(errors="replace") for log in logs if log.exists())

    def _store(self) -> None:
        record = {
            "spec": asdict(self.spec),
            "suite_path": str(self.rootfs.path),
            "launcher": asdict(self.launcher),
            "init": asdict(self.init),
            "slurm_version": self.slurm_version,
            "has_pyslurm": self.has_pyslurm,
            "started": self.started,
        }
        unfinished = self.folder / "cluster.json.tmp"
        unfinished.write_text(json.dumps(record, indent=1))
        unfinished.rename(self.folder / "cluster.json")
        (self.folder / "etc/recorded").touch()  # init.sh waits for it

    @staticmethod
    def _load(folder: Path) -> Cluster | None:
        """Return the running cluster of that folder, None if there is none or it has died."""
        try:
            record = json.loads((folder / "cluster.json").read_text())
        except (FileNotFoundError, ValueError):
            return None
        spec = ClusterSpec(**record["spec"])
        cluster = Cluster(
            spec,
            folder,
            Rootfs(spec.suite, Path(record["suite_path"])),
            ClusterProcess(**record["launcher"]),
            ClusterProcess(**record["init"]),
            record["slurm_version"],
            record["has_pyslurm"],
            record["started"],
        )
        return cluster if cluster.alive() else None


def _lock(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")
