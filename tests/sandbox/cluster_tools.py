"""What the tests of the private cluster share: wait, find the processes and mounts of a cluster, submit a job, read its state."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tiresias.sandbox.cluster import Cluster


def wait_for(done: Callable[[], bool], what: Callable[[], str], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


def living(folder: Path, namespace: str = "") -> list[str]:
    """Living processes that were started from a cluster's folder, or use its network."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            state = (proc / "stat").read_text().rpartition(")")[2].split()[0]
            command = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            network = str((proc / "ns/net").readlink())
        except OSError:
            continue
        if state != "Z" and (f"{folder}/" in command or network == namespace):
            found.append(f"{proc.name} {command}")
    return found


def traces_of(cluster: Cluster) -> list[str]:
    """Also mounts of the folder that this machine sees."""
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(cluster.folder) in line]
    return mounts + living(cluster.folder, NAMESPACES.get(cluster.folder, ""))


NAMESPACES: dict[Path, str] = {}


def submit(cluster: Cluster, *words: str, user: str = "alice") -> str:
    return cluster.run(["sbatch", "--parsable", "--output=/shared/%j.out", *words], user=user).stdout.strip()


def state(cluster: Cluster, job: str) -> str:
    return cluster.run(["squeue", "-h", "-t", "all", "-j", job, "-o", "%T %r"], check=False).stdout.strip()


def wait_state(cluster: Cluster, job: str, expected: str) -> None:
    wait_for(
        lambda: state(cluster, job).startswith(expected),
        lambda: f"job {job} is {state(cluster, job)!r}, not {expected}",
    )
