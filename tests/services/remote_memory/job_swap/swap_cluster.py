"""A private Slurm whose task/cgroup limits memory and swap, with the prolog and epilog of jobs' swaps."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.services.remote_memory.job_swap.swap_node import SWAPPING, missing, until
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

SCRIPT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/opt/tiresias/src
exec python3 -m tiresias.services.remote_memory.job_swap {part} /shared/swap.json 2>> /shared/{part}.log
"""
RUN = "/run/tiresias/remote-memory"
ENDED = ("COMPLETED", "FAILED", "OUT_OF_MEMORY", "CANCELLED", "TIMEOUT", "NODE_FAIL")
SETTINGS = {
    "Prolog": "/shared/prolog.sh",
    "Epilog": "/shared/epilog.sh",
    "PrologFlags": "Alloc",
    "Licenses": "remote_memory:1",
}


@contextmanager
def swap_cluster(name: str, *, nodes: int = 1, spec: dict[str, Any] | None = None, **content: Any) -> Iterator[Cluster]:
    """A cluster whose nodes start the swap of jobs.

    Args:
        name: Part of its name.
        nodes: How many.
        spec: Further parameters of it.
        content: Further keys of the nodes' configuration.
    """
    if reason := missing():
        pytest.skip(reason)
    further = spec or {}
    settings = SETTINGS | further.pop("settings", {})
    fixed = {"gpus_per_node": 0, "memory_limits": True, "hooks": False, "settings": settings}
    cluster = Cluster.up(ClusterSpec(name=f"{name}-{os.getpid()}", nodes=nodes, **(fixed | further)), report=print)
    try:
        for part in ("prolog", "epilog"):
            file = cluster.shared / f"{part}.sh"
            file.write_text(SCRIPT.format(part=part))
            file.chmod(0o755)
        configure(cluster, **content)
        (cluster.shared / "swapping.py").write_bytes(Path(SWAPPING).read_bytes())
        yield cluster
    finally:
        cluster.down()


def configure(cluster: Cluster, **content: Any) -> None:
    """Write the configuration of all nodes."""
    file = cluster.shared / "swap.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps({"disk": "/shared"} | content))


def submit(
    cluster: Cluster,
    user: str,
    mib: int,
    *options: str,
    writes: int = 2000,
    by: str = "sbatch",
    until_file: str = "",
    env: Mapping[str, str] | None = None,
) -> str:
    """Submit a job of 48 MiB that needs more; return its id.

    Args:
        cluster: Where.
        user: Whose.
        mib: What it needs.
        options: Of sbatch.
        writes: Pages that it writes again.
        by: sbatch or tsbatch.
        until_file: It continues to write until /shared has this file.
        env: Variables of the submission.
    """
    waits = f" /shared/{until_file}" if until_file else ""
    script = f"python3 /shared/swapping.py {mib} {writes}{waits}"
    words = [by, "--parsable", "--mem=48M", "--output=/shared/%j.out", *options, "--wrap", script]
    return cluster.run(words, user=user, env=env).stdout.strip()


def state(cluster: Cluster, job: str) -> str:
    """Return the state of a job."""
    shown = cluster.run(["scontrol", "show", "job", job]).stdout
    return shown.split("JobState=")[1].split()[0]


def end(cluster: Cluster, job: str) -> str:
    """Return the state in which a job ended."""
    return str(until(lambda: (found := state(cluster, job)) in ENDED and found, f"job {job} ends", 150))


def inside(cluster: Cluster, *words: str) -> str:
    """Return what a command of root prints."""
    return cluster.run(words, check=False).stdout


def out(cluster: Cluster, job: str) -> str:
    """Return the output of a job until now."""
    file = cluster.shared / f"{job}.out"
    return file.read_text() if file.exists() else ""


def log(cluster: Cluster, part: str) -> str:
    """Return what prologs or epilogs have logged."""
    file = cluster.shared / f"{part}.log"
    return file.read_text() if file.exists() else ""
