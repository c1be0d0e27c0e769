"""The two back ends side by side on one Slurm 26.05: equal snapshots, without and with accounting."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from tests.conftest import ClusterOf

from .conftest import ACCOUNTED, OPTIONS, Site, connect

pytestmark = pytest.mark.sandbox

REQUESTS = [
    ["--gpus=3"], ["--gpus=v100:3"], ["--gres=gpu:v100:2", "--nodes=2"], ["--gpus-per-task=2", "--ntasks=3"],
    ["--gpus-per-socket=2", "--sockets-per-node=1"], ["--ntasks=2"], ["--array=1-4%2", "--gpus=1"],
    ["--gpus=1", "--exclusive"], ["--gres=gpu:2"], ["--gres=gpu:2", "--ntasks-per-gpu=1", "--cpus-per-gpu=2"],
    ["--begin=now+1hour"], ["--nice=50", "--comment=my own"],
    ["--constraint=rack1", "--gres=gpu:1", "--nodelist=gpu02", "--exclude=gpu03", "--no-requeue", "--time=10", "--mem=100"],
]  # fmt: skip


@pytest.fixture(params=["plain", "accounting"])
def pair(request: pytest.FixtureRequest, cluster_of: ClusterOf) -> Iterator[tuple[Site, Site]]:
    accounting = request.param == "accounting"
    cluster = cluster_of("forky", **(ACCOUNTED if accounting else OPTIONS))
    sites = [Site(cluster, connect(cluster, name, cluster.spec.daemon_user)) for name in ("pyslurm", "commands")]
    yield sites[0], sites[1]
    for site in sites:
        site.backend.close()


def _differences(pair: tuple[Site, Site]) -> list[str]:
    """The fields of jobs and nodes that the two back ends read differently."""
    first, second = (
        {**{one.id: asdict(one) for one in snapshot.jobs}, **{one.name: asdict(one) for one in snapshot.nodes}}
        for snapshot in (site.backend.snapshot() for site in pair)
    )
    return [
        f"{key}: {field} {first.get(key, {}).get(field)!r}, {second.get(key, {}).get(field)!r}"
        for key in sorted(first.keys() | second.keys())
        for field in {**first.get(key, {}), **second.get(key, {})}
        if first.get(key, {}).get(field) != second.get(key, {}).get(field)
    ]


def _wait_same(pair: tuple[Site, Site]) -> None:
    """A job may move between the two readings: then they are equal a moment later."""
    until = time.monotonic() + 10
    while (differences := _differences(pair)) and time.monotonic() < until:
        time.sleep(0.3)
    assert not differences


@pytest.mark.slow
def test_both_show_the_same(pair: tuple[Site, Site]) -> None:
    site = pair[0]
    for request in REQUESTS:
        site.submit("--hold", *request)
    _wait_same(pair)
    site.running("--gpus=6", "--ntasks=6", "--gpus-per-task=1", "--nodes=2")
    site.running("--ntasks=2")
    site.wait(site.submit(script="exit 3"), lambda job: job.state == "FAILED" and not job.completing)
    _wait_same(pair)
    moved = site.running("--gpus=1")
    site.backend.hold(moved.id)
    site.backend.requeue(moved.id)
    pair[1].backend._memory.requeuing(moved.id, site.wait(moved.id, lambda job: not job.completing).end_time)
    _wait_same(pair)


@pytest.mark.slow
def test_the_end_of_a_requeued_run_is_the_one_in_the_accounts(pair: tuple[Site, Site]) -> None:
    """To the second, whatever the moment inside a second at which it is asked."""
    site = pair[0]
    jobs = [site.running("--gpus=1", "--mem-per-cpu=10") for _ in range(8)]
    time.sleep(1.1)
    ends = {}
    for at, job in enumerate(jobs):
        while not at / 8 <= time.time() % 1 < (at + 1) / 8:
            time.sleep(0.005)
        ends[job.id] = site.backend.requeue(job.id)
    for job in jobs:
        site.wait(job.id, lambda job: not job.completing)
        assert site.ran(job.id)[:1] == [(job.start_time, ends[job.id])]
