"""The node of a donor is killed or drained while a job of another node swaps to it, on a private Slurm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.services.remote_memory.donors import SERVICE_KEY
from tests.services.remote_memory.job_swap.swap_cluster import end, log, out, state, submit, swap_cluster
from tests.services.remote_memory.job_swap.swap_node import until
from tiresias.sandbox.cluster import Cluster
from tiresias.services.remote_memory.job_swap import loop_devices

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.xdist_group("job swap")]
CLIENT, DONOR = "gpu01", "gpu02"
ADDRESS = "127.0.0.1:7613"
MODULE = "tiresias.services.remote_memory.donor"
STATISTICS = "/opt/tiresias/tests/services/remote_memory/donor_statistics.py"
SLAB_MIB = 8


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Cluster]:
    """A cluster with two nodes; a donor of the second one."""
    keys: dict[str, Any] = {"donors": [ADDRESS], "service_key_file": "/shared/donor.key", "slab_mib": SLAB_MIB}
    with swap_cluster("donates", nodes=2, **keys) as cluster:
        content = {
            "listen": ADDRESS, "service_key_file": "/shared/donor.key", "most_mib": 192, "headroom_mib": 16, "slab_mib": SLAB_MIB,
            "slurm_node": DONOR, "slurm_poll_s": 0.5,
        }  # fmt: skip
        for name, text in (("donor.key", SERVICE_KEY.hex()), ("donor.json", json.dumps(content))):
            (cluster.shared / name).touch(mode=0o600)
            (cluster.shared / name).write_text(text)
        yield cluster


@pytest.fixture
def job(two_nodes: Cluster) -> Iterator[str]:
    """A job on the first node whose pages the donor has; it writes until the file `end` exists."""
    (two_nodes.shared / "end").unlink(missing_ok=True)
    two_nodes.run(["sh", "-c", f"python3 -m {MODULE} /shared/donor.json >> /shared/donor.log 2>&1 &"])
    until(lambda: statistics(two_nodes).get("unallocated_bytes"), "the donor lends", 30)
    found = submit(two_nodes, "alice", 96, "--extra=remote-mem=160M", f"--nodelist={CLIENT}", until_file="end")
    until(lambda: "filled" in out(two_nodes, found), "the job swaps", 60)
    until(lambda: statistics(two_nodes).get("mapped", 0) > 2, "the donor has slabs of the job", 30)
    until(lambda: statistics(two_nodes)["read_bytes"] > 0, "the job reads pages of the donor", 30)
    yield found
    two_nodes.run(["scancel", found], check=False)
    until(lambda: not list(loop_devices.own_devices()), "the epilog removes the swap", 60)
    two_nodes.run(["pkill", "-KILL", "-f", MODULE], check=False)
    two_nodes.run(["scontrol", "update", f"nodename={DONOR}", "state=resume"], check=False)
    until(lambda: two_nodes.node_states() == ["idle", "idle"], "both nodes are idle again", 60)


def statistics(cluster: Cluster) -> dict[str, int]:
    """Return the statistics of the donor; {} where it does not answer."""
    found: dict[str, int] = json.loads(cluster.run(["python3", STATISTICS, ADDRESS, SERVICE_KEY.hex()]).stdout)
    return found


def set_state(cluster: Cluster, state: str) -> None:
    """Set the state of the donor's node."""
    cluster.run(["scontrol", "update", f"nodename={DONOR}", f"state={state}", "reason=test"])


def ends_well(cluster: Cluster, job: str) -> dict[str, int]:
    """Have the job end, check that it found each page as it had written it, and return its figures."""
    assert state(cluster, job) == "RUNNING"
    (cluster.shared / "end").touch()
    assert end(cluster, job) == "COMPLETED", out(cluster, job)
    assert out(cluster, job).split() == ["filled", "checked"]
    line = until(lambda: re.search(rf"job {job}: (\{{.*\}})", log(cluster, "epilog")), "the epilog has its figures", 60)
    found: dict[str, int] = json.loads(line[1])
    assert found["failed"] == 0
    return found


def test_a_killed_donor_whose_node_is_down(two_nodes: Cluster, job: str) -> None:
    two_nodes.run(["pkill", "-KILL", "-f", MODULE])
    set_state(two_nodes, "down")
    found = ends_well(two_nodes, job)
    assert found["read_remote"] > 0
    assert found["read_disk"] > 0


def test_a_drained_node_gives_its_slabs_back_and_lends_again_when_it_is_resumed(two_nodes: Cluster, job: str) -> None:
    set_state(two_nodes, "drain")
    until(lambda: statistics(two_nodes)["mapped"] == 0, "the donor gives its slabs back", 30)
    left = statistics(two_nodes)
    assert (left["unallocated_bytes"], left["available_slabs"], left["ready"], left["held_bytes"]) == (0, 0, 0, 0)
    assert f"node {DONOR} is DRAIN: all slabs are given back" in (two_nodes.shared / "donor.log").read_text()
    found = ends_well(two_nodes, job)
    assert found["read_disk"] > 0
    set_state(two_nodes, "resume")
    until(lambda: statistics(two_nodes)["available_slabs"] > 0, "the donor lends again", 30)
