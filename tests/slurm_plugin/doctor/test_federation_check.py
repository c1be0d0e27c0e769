"""A cluster in a federation of a real Slurm: doctor reports it, and its jobs are Slurm's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.conftest import ClusterOf
from tiresias.sandbox.cluster import Cluster
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.cluster.scope import FEDERATED, Scope
from tiresias.slurm_plugin.doctor.federation_check import judged


@pytest.mark.sandbox
@pytest.mark.long
def test_a_cluster_in_a_federation(cluster_of: ClusterOf) -> None:
    cluster = cluster_of("forky", accounting=True, nodes=2)
    assert judged(shown(cluster)).level is Level.FINE
    assert submitted(cluster) < FEDERATED
    cluster.run(["sacctmgr", "-i", "add", "federation", "campus", f"clusters={cluster.spec.name}"])
    try:
        deadline = time.monotonic() + 60
        while judged(shown(cluster)).level is Level.FINE:
            assert time.monotonic() < deadline, shown(cluster)
            time.sleep(0.1)
        found = judged(shown(cluster))
        assert (found.level, "in federation campus:" in found.words) == (Level.RISK, True)
        assert submitted(cluster) >= FEDERATED
    finally:
        cluster.run(["sacctmgr", "-i", "delete", "federation", "campus"])


def shown(cluster: Cluster) -> str:
    return cluster.run(["scontrol", "show", "federation"], check=False).stdout


def submitted(cluster: Cluster) -> int:
    """Return the id of a new job."""
    words = ["sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap", "true"]
    return int(cluster.run(words, user="alice", cwd="/tmp").stdout.partition(";")[0])


def test_jobs_of_a_federation_are_unmanaged(pending: Callable[..., SlurmJob]) -> None:
    job = pending()
    scope = Scope(frozenset({job.partition}))
    assert scope.why_not(job) == ""
    assert "federation" in scope.why_not(replace(job, raw_id=FEDERATED + 7))
