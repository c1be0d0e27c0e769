"""slurmctld down, stuck or back again; a worker that dies or hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.slurm_plugin.backends.conftest import Site
from tiresias.sandbox.cluster import Cluster
from tiresias.slurm_plugin.backends.interface import Backend, RequestChange, SlurmUnavailable
from tiresias.slurm_plugin.backends.pyslurm import PyslurmBackend

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]

CALLS: dict[str, Callable[[Backend, str], object]] = {
    "snapshot": lambda backend, job: backend.snapshot(),
    "job": lambda backend, job: backend.job(job),
    "hold": lambda backend, job: backend.hold(job),
    "release": lambda backend, job: backend.release(job),
    "pin": lambda backend, job: backend.pin(job, RequestChange(required=("gpu01",))),
    "requeue": lambda backend, job: backend.requeue(job),
    "version": lambda backend, job: backend.version(),
}
DEADLINE = 1.5
LATE = 6.0  # seconds after which a call has not ended by its deadline; Slurm's own is 10


@pytest.fixture
def hurried(lone_site: Site) -> Iterator[Site]:
    """With a deadline that a test can wait for."""
    lone_site.backend.close()
    prefix, kind = lone_site.backend._slurm._prefix, type(lone_site.backend)
    more: dict[str, Any] = {"python": "python3"} if kind is PyslurmBackend else {}
    lone_site.backend = kind(DEADLINE, prefix, **more)
    yield lone_site
    lone_site.backend.close()


def every_call_gives_up(hurried: Site, job: str) -> None:
    for name, call in CALLS.items():
        began = time.monotonic()
        with pytest.raises(SlurmUnavailable):
            call(hurried.backend, job)
        assert time.monotonic() - began < LATE, name


@pytest.mark.slow
def test_every_call_ends_while_slurmctld_is_down_and_works_when_it_is_back(hurried: Site) -> None:
    job = hurried.submit("--hold", "--gpus=1")
    before = hurried.job(job)
    hurried.cluster.kill_slurmctld("TERM")
    try:
        every_call_gives_up(hurried, job)
    finally:
        hurried.cluster.start_slurmctld()
    assert hurried.job(job) == before
    hurried.backend.hold(job)
    assert hurried.backend.job(job).held_by_admin


@pytest.mark.slow
def test_every_call_ends_while_slurmctld_is_stuck(hurried: Site) -> None:
    """It accepts connections and never answers: what a thrashing controller looks like."""
    job = hurried.submit("--hold", "--gpus=1")
    hurried.backend.snapshot()
    pid = str(hurried.cluster.slurmctld_pid)
    hurried.cluster.run(["kill", "-STOP", pid])
    try:
        every_call_gives_up(hurried, job)
    finally:
        hurried.cluster.run(["kill", "-CONT", pid])
    until = time.monotonic() + 20
    while True:
        try:
            assert hurried.job(job).id == job
            break
        except SlurmUnavailable:
            assert time.monotonic() < until


@pytest.fixture
def pyslurm(cluster: Cluster) -> Iterator[PyslurmBackend]:
    from_outside = cluster.enter([], user="slurm", env={"LC_ALL": "C", "PYSLURM_DISABLE_AUTO_INIT": "1"})
    backend = PyslurmBackend(DEADLINE, from_outside, "python3")
    backend.snapshot()
    yield backend
    backend.close()


def _group(backend: PyslurmBackend) -> int:
    process = backend._worker._process
    assert process
    return process.pid


def _wait_gone(group: int) -> None:
    """A killed process stays until it is reaped, here by the cluster's first process."""
    until = time.monotonic() + 5
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        assert time.monotonic() < until, f"process group {group} lives on"
        time.sleep(0.05)


def test_a_worker_that_was_killed_is_replaced(cluster: Cluster, pyslurm: PyslurmBackend) -> None:
    job = cluster.run(["sbatch", "--parsable", "--hold", "--chdir=/tmp", "--wrap=true"], user="alice").stdout.strip()
    before = pyslurm.snapshot()
    os.killpg(_group(pyslurm), signal.SIGKILL)
    with pytest.raises(SlurmUnavailable, match="signal 9"):
        pyslurm.snapshot()
    assert pyslurm.snapshot().jobs == before.jobs
    assert pyslurm.job(job).held_by_user


def test_a_worker_that_hangs_is_killed(pyslurm: PyslurmBackend) -> None:
    hung = _group(pyslurm)
    os.killpg(hung, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(SlurmUnavailable, match="did not answer within"):
        pyslurm.snapshot()
    assert time.monotonic() - began < LATE
    _wait_gone(hung)
    pyslurm.snapshot()


def test_jobs_that_go_while_there_is_no_worker_are_gone(cluster: Cluster, pyslurm: PyslurmBackend) -> None:
    job = cluster.run(["sbatch", "--parsable", "--hold", "--chdir=/tmp", "--wrap=true"], user="alice").stdout.strip()
    assert job in {one.id for one in pyslurm.snapshot().jobs}
    os.killpg(_group(pyslurm), signal.SIGKILL)
    cluster.run(["scancel", job])
    with pytest.raises(SlurmUnavailable):
        pyslurm.snapshot()
    assert [one.state for one in pyslurm.snapshot().jobs if one.id == job] in ([], ["CANCELLED"])


def test_the_worker_ends_with_a_daemon_that_was_killed(cluster: Cluster) -> None:
    script = (
        "import sys, time; from tiresias.slurm_plugin.backends.pyslurm import PyslurmBackend; "
        "backend = PyslurmBackend(); backend.snapshot(); print(backend._worker._process.pid, flush=True); time.sleep(300)"
    )
    with cluster.popen(
        ["python3", "-c", script], user="slurm", stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as daemon:
        assert daemon.stdout
        worker = daemon.stdout.readline().strip()
        assert cluster.run(["kill", "-0", worker], check=False).returncode == 0
        os.killpg(daemon.pid, signal.SIGKILL)
    until = time.monotonic() + 5
    while cluster.run(["kill", "-0", worker], check=False).returncode == 0:
        assert time.monotonic() < until, f"worker {worker} lives on"
        time.sleep(0.1)


def test_close_leaves_no_process(pyslurm: PyslurmBackend) -> None:
    group = _group(pyslurm)
    pyslurm.close()
    _wait_gone(group)
