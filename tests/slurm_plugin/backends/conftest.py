"""Both back ends on real Slurm: each test that takes `site` runs against pyslurm on 26.05 and the commands on all three.

`make test` has the two that differ most, the newest Slurm by pyslurm and the oldest by its commands; test_controller_backends.py
has each of the four. `make test-long` runs all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.polling import pauses
from tiresias.sandbox import accounts, completion_log
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.completion_log import epoch
from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.backends.interface import RequestChange, SlurmJob, SlurmNode
from tiresias.slurm_plugin.backends.pyslurm import PyslurmBackend

ENVIRONMENT = {"LC_ALL": "C", "SLURM_BITSTR_LEN": "0", "PYSLURM_DISABLE_AUTO_INIT": "1"}
DEADLINE = 5.0
OPTIONS: dict[str, Any] = {"gpu_type": "v100", "hooks": False, "settings": {"KillWait": "5"}}
ACCOUNTED: dict[str, Any] = {**OPTIONS, "accounting": True, "settings": {"KillWait": "5", "Licenses": "matlab:3"}}


@dataclass
class Site:
    """A cluster, a back end that reaches it from outside, and what tests do there as users."""

    cluster: Cluster
    backend: CommandsBackend

    def submit(self, *options: str, script: str = "sleep 300", user: str = "alice") -> str:
        wrapped = ["sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", *options, f"--wrap={script}"]
        return self.cluster.run(wrapped, user=user).stdout.strip()

    def wait(self, job_id: str, ready: Callable[[SlurmJob], bool], seconds: float = 20.0) -> SlurmJob:
        until, pause = time.monotonic() + seconds, pauses()
        while not ready(job := self.backend.job(job_id)):
            assert time.monotonic() < until, f"not after {seconds:g} s: {job}"
            pause()
        return job

    def running(self, *options: str, **more: Any) -> SlurmJob:
        return self.wait(self.submit(*options, **more), lambda job: job.state == "RUNNING" and bool(job.shares))

    def start(self, job_id: str, *nodes: str) -> None:
        self.backend.pin(job_id, RequestChange(nodes=(len(nodes), len(nodes)), required=nodes))
        self.backend.lift(job_id)

    def shown(self, job_id: str, field: str) -> str:
        """Return a field of `scontrol show job`."""
        shown = self.cluster.run(["scontrol", "show", "job", "-o", job_id]).stdout
        return next(word.removeprefix(f"{field}=") for word in shown.split() if word.startswith(f"{field}="))

    def job(self, job_id: str) -> SlurmJob:
        """From a snapshot."""
        return self.jobs()[job_id]

    def jobs(self) -> dict[str, SlurmJob]:
        return {job.id: job for job in self.backend.snapshot().jobs}

    def nodes(self) -> dict[str, SlurmNode]:
        return {node.name: node for node in self.backend.snapshot().nodes}

    def ran(self, job_id: str) -> list[tuple[int, int]]:
        """Wait until Slurm's own accounts have an ended run of the job; return (start, end) of all, oldest first."""
        until, pause = time.monotonic() + 20.0, pauses()
        while not (found := self._accounted(job_id)):
            assert time.monotonic() < until, f"no run of job {job_id} in jobcomp.log"
            pause()
        return found

    def _accounted(self, job_id: str) -> list[tuple[int, int]]:
        """Read the file of JobCompType=jobcomp/filetxt, which slurmctld writes after the end of a run."""
        log = completion_log.records(self.cluster.log / "jobcomp.log")
        ends = [[epoch(one[name]) for name in ("StartTime", "EndTime")] for one in log if one["JobId"] == job_id]
        return [(start, end) for start, end in ends]


def connect(cluster: Cluster, name: str, user: str = "slurm") -> CommandsBackend:
    prefix = cluster.enter([], user=user, env=ENVIRONMENT)
    return PyslurmBackend(DEADLINE, prefix, "python3") if name == "pyslurm" else CommandsBackend(DEADLINE, prefix)


BETWEEN = [pytest.param(name, marks=pytest.mark.long) for name in ("commands@forky", "commands@trixie")]


@pytest.fixture(params=["pyslurm@forky", *BETWEEN, "commands@bookworm"])
def site(request: pytest.FixtureRequest, cluster_of: Callable[..., Cluster]) -> Iterator[Site]:
    name, suite = request.param.split("@")
    cluster = cluster_of(suite, **OPTIONS)
    backend = connect(cluster, name)
    yield Site(cluster, backend)
    backend.close()


@pytest.fixture(params=["pyslurm", "commands"])
def account_site(request: pytest.FixtureRequest, cluster_of: Callable[..., Cluster]) -> Iterator[Site]:
    """A cluster in which alice may use the accounts `first` and `second`."""
    cluster = cluster_of("forky", **{**OPTIONS, "accounting": True})
    if "Account=first" not in cluster.run(["scontrol", "-o", "show", "assoc_mgr", "flags=assoc"]).stdout:
        accounts.add(cluster, {"first": (), "second": ()}, ("alice",))
    backend = connect(cluster, request.param)
    yield Site(cluster, backend)
    backend.close()


@pytest.fixture(params=["pyslurm", "commands"])
def lone_site(request: pytest.FixtureRequest, cluster_of: Callable[..., Cluster]) -> Iterator[Site]:
    """A cluster whose slurmctld the test may stop."""
    cluster = cluster_of("forky", nodes=2, hooks=False)
    backend = connect(cluster, request.param)
    yield Site(cluster, backend)
    backend.close()
