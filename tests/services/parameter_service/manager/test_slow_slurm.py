"""The manager goes on while Slurm does not answer, and waits while its lead cannot be renewed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.services.parameter_service.service_on_slurm import Service, until
from tiresias.sandbox.cluster import Cluster

SLOW = "/shared/slow"
SBATCH = f"""#!/bin/sh
echo > {SLOW}/begun
read -r _ < {SLOW}/go
exec /usr/bin/sbatch "$@"
"""


def lease(cluster: Cluster) -> dict[str, int]:
    found: dict[str, int] = json.loads((cluster.shared / "service/state/lead/lease").read_text())
    return found


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_jobs_register_while_sbatch_does_not_return(cluster: Cluster, service_of: Callable[..., Service]) -> None:
    service, slow = service_of(3), cluster.shared / "slow"
    cluster.run(["sh", "-c", f"rm -rf {SLOW}; install -d -m 777 {SLOW}; mkfifo -m 666 {SLOW}/go"])
    (slow / "sbatch").write_text(SBATCH)
    (slow / "sbatch").chmod(0o755)
    service.lead(SLOW)
    standby = service.start(SLOW)
    assert service.register("a", 1).returncode == 0
    until((slow / "begun").exists, lambda: "no sbatch")
    first = lease(cluster)
    for job, user in (("b", "alice"), ("c", "bob")):
        done = service.register(job, 1, user=user)
        assert done.returncode == 0, done.stderr
    until(lambda: [job["name"] for job in service.seen("bob")["jobs"]] == ["c"], lambda: service.seen("bob"))
    until(lambda: lease(cluster)["beat"] > first["beat"] + 10, lambda: lease(cluster))  # twice the time of a lease
    assert (lease(cluster)["epoch"], service.queued(), standby.poll()) == (first["epoch"], {}, None)
    (slow / "sbatch").write_text('#!/bin/sh\nexec /usr/bin/sbatch "$@"\n')
    cluster.run(["sh", "-c", f"echo go > {SLOW}/go"])
    until(lambda: len(service.queued()) == 3, service.queued)


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_lead_in_doubt_changes_nothing_until_it_is_renewed(
    cluster: Cluster, service_of: Callable[..., Service]
) -> None:
    service = service_of(3)
    service.lead()
    placed = service.place("a", 1)
    assert placed.returncode == 0, placed.stderr
    standby = service.start()
    until(lambda: bool(standbys(cluster)), lambda: "the standby does not announce itself")
    lead = cluster.shared / "service/state/lead"
    lead.rename(lead.with_name("away"))
    lead.write_text("no folder")
    until(lambda: "waits for its lead" in service.register("b", 1).stderr, lambda: "the lead is not in doubt")
    (old,) = service.queued().values()
    cluster.run(["scancel", "--signal=KILL", "--full", old])
    until(lambda: not service.queued(), service.queued)
    for _ in range(5):  # each takes longer than a poll of Slurm
        refused = service.register("b", 1)
        assert (refused.returncode, service.queued()) == (1, {}), refused.stderr
    assert standby.poll() is None
    lead.unlink()
    lead.with_name("away").rename(lead)
    until(lambda: service.queued().get("tiresias-ps-m2-0", old) != old, service.queued)
    until(lambda: service.register("b", 1).returncode == 0, lambda: service.register("b", 1).stderr)


def standbys(cluster: Cluster) -> list[str]:
    return [each.name for each in (cluster.shared / "service/state/lead").glob("standby-*")]
