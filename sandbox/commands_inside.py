"""Commands inside a running cluster, as one of its users."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.sandbox import host, launch, rootfs
from tiresias.sandbox.cluster_process import ClusterProcess
from tiresias.sandbox.rootfs import Rootfs
from tiresias.sandbox.slurm_conf import ClusterSpec


class CommandsInside:
    """Starts commands in the namespaces of a cluster; the base class of Cluster."""

    spec: ClusterSpec
    rootfs: Rootfs
    init: ClusterProcess

    def run(
        self, command: Sequence[str], *, user: str = "root", input: str | None = None, timeout: float | None = 60,
        check: bool = True, env: Mapping[str, str] | None = None, cwd: str | None = None,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run a command inside as `user` and return its text output.

        Raises:
            TiresiasError: it fails and `check` is set.
            subprocess.TimeoutExpired: it takes longer than `timeout` seconds; it is killed with its children.
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
        """Start a command inside as `user`."""
        return subprocess.Popen(self.enter(command, user=user, env=env, cwd=cwd), **options)

    def enter(
        self,
        command: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> list[str]:
        """Return the host command line that runs `command` inside the cluster's namespaces."""
        home = self.rootfs.home(user) if user in rootfs.USERS else "/root" if user == "root" else "/tmp"
        variables = {**launch.environment(user, home), **(env or {})}
        return [
            "nsenter", "--target", str(self.init.pid), "--mount", "--uts", "--ipc", "--net", "--pid",
            *(["--user"] if host.user_namespace() else []),
            "--setuid", str(self.rootfs.uid(user)), "--setgid", str(self.rootfs.gid(user)), f"--wdns={cwd or home}",
            "env", "-i", *(f"{key}={value}" for key, value in variables.items()), *command,
        ]  # fmt: skip
