"""etc/primary.sh as SlurmctldPrimaryOnProg of a real slurmctld, with a controller to call and without one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tiresias.sandbox.cluster import Cluster

FILE = "/run/tiresias/primary"


@pytest.mark.sandbox
def test_slurmctld_rings_when_it_becomes_the_primary_one(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of(nodes=1, settings={"SlurmctldPrimaryOnProg": "/opt/tiresias/etc/primary.sh"})
    notice = Path(f"/proc/{cluster.init.pid}/root{FILE}")
    assert not notice.exists(), "without a controller it makes nothing"
    cluster.run(["install", "-o", "slurm", "-m", "660", "/dev/null", FILE])
    cluster.restart_slurmctld()
    deadline = time.monotonic() + 30
    while not notice.stat().st_size:
        assert time.monotonic() < deadline, "slurmctld does not run the hook"
        time.sleep(0.05)
    log = (cluster.log / "slurmctld.log").read_text()
    assert "SlurmctldPrimaryOnProg completed successfully" in log
    assert "SlurmctldPrimaryOnProg exited" not in log
