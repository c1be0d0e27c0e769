"""Aggregators as jobs of a real Slurm: kill -9 of the manager at each write of its journal and at each call of Slurm."""

from __future__ import annotations

import subprocess

import pytest

from tiresias.sandbox.cluster import Cluster

KILL_FLEET = "/opt/tiresias/tests/services/parameter_service/manager/kill_fleet.py"
BUDGET = 3
POINTS = range(1, 17)


def run_fleet(
    cluster: Cluster, epoch: int, requested: str, released: str, point: int
) -> subprocess.CompletedProcess[str]:
    fixed = ["python3", KILL_FLEET, "/shared/fleet", "m1", "/shared/aggregator.sh", str(BUDGET)]
    command = [*fixed, str(epoch), requested, released, str(point)]
    return cluster.run(command, user="alice", check=False)


def queued(cluster: Cluster) -> dict[str, str]:
    """Return the jobs that have not ended: name -> id; asserts that no name is there twice."""
    lines = [
        line.split() for line in cluster.run(["squeue", "-h", "-u", "alice", "-o", "%j %A %T"]).stdout.splitlines()
    ]
    assert len({name for name, _, _ in lines}) == len(lines)
    return {name: job for name, job, _ in lines}


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_orphan_and_no_second_aggregator_after_kills_at_every_point(cluster: Cluster) -> None:
    script = cluster.shared / "aggregator.sh"
    script.write_text("#!/bin/sh\nexec sleep 1000\n")
    script.chmod(0o755)
    (cluster.shared / "fleet").mkdir(exist_ok=True)
    cluster.run(["chown", "alice", "/shared/fleet"])
    killed, first = 0, 1
    for point in POINTS:
        requested, released = f"{first},{first + 1}", f"{first - 2},{first - 1}" if first > 1 else ""
        done = run_fleet(cluster, 2 * point, requested, released, point)
        killed += done.returncode in (137, -9)
        assert len(queued(cluster)) <= BUDGET
        settled = run_fleet(cluster, 2 * point + 1, requested, released, 0)
        assert settled.returncode == 0, settled.stderr
        members = dict(each.split("=") for each in settled.stdout.split())
        assert sorted(members) == sorted(requested.split(","))
        assert queued(cluster) == {f"tiresias-ps-m1-{number}": job for number, job in members.items()}
        first += 2
    assert killed == len(POINTS), "each point is reached"
    done = run_fleet(cluster, 1000, "", ",".join(members), 0)
    assert (done.returncode, done.stdout.split(), queued(cluster)) == (0, [], {})
