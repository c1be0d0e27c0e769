"""What Slurm has allocated bounds what a donor lends."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.remote_memory.conftest import StartDonor
from tests.services.remote_memory.donors import SERVICE_KEY, until
from tests.services.remote_memory.job_swap.swap_node import missing
from tiresias.errors import Unavailable
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.services.remote_memory.donor.slurm_allocation import (
    NODE_POLL_S,
    RARE_NODE_POLL_S,
    NodeRecord,
    SlurmAllocation,
    limited_by_cgroups,
    parsed_node,
)
from tiresias.services.remote_memory.slabs.donor_memory import DonorMemory, SlabCounts

GIB = 1 << 30
PORT = 7612
HERE = "/opt/tiresias/tests/services/remote_memory"


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("NodeName=a RealMemory=1024 AllocMem=24 FreeMem=1 MemSpecLimit=512 Sockets=1", (512 << 20, 24 << 20)),
        ("NodeName=a RealMemory=1024 AllocMem=0 FreeMem=N/A", (GIB, 0)),
        ("NodeName=a\n   RealMemory=1024 AllocMem=1024\n   MemSpecLimit=4096\n", (0, GIB)),
    ],
)
def test_a_record_is_read(text: str, record: tuple[int, int]) -> None:
    assert parsed_node(text) == NodeRecord(*record)


@pytest.mark.parametrize(
    ("state", "withdrawn"),
    [
        ("IDLE", ""),
        ("MIXED+PLANNED", ""),
        ("IDLE*", ""),
        ("ALLOCATED+COMPLETING+NOT_RESPONDING", ""),
        ("MIXED+DRAIN", "DRAIN"),
        ("IDLE*+DRAIN+NOT_RESPONDING", "DRAIN"),
        ("DOWN*", "DOWN"),
        ("DOWN+DRAIN", "DOWN+DRAIN"),
        ("IDLE+MAINTENANCE", "MAINTENANCE"),
        ("IDLE+POWERED_DOWN", "POWERED_DOWN"),
    ],
)
def test_the_state_of_a_node_takes_it_out_of_use(state: str, withdrawn: str) -> None:
    record = parsed_node(f"NodeName=a RealMemory=1024 AllocMem=24 State={state} ThreadsPerCore=1 NextState=DRAIN")
    assert record == NodeRecord(GIB, 24 << 20, withdrawn)


def test_a_drained_node_lends_nothing_until_it_is_resumed(capfd: pytest.CaptureFixture[str]) -> None:
    slurm = Slurm()
    slurm.allocated = slurm.limited = GIB
    slurm.polls.poll(0.0)
    slurm.withdrawn = "DRAIN"
    slurm.polls.poll(2 * RARE_NODE_POLL_S)
    slurm.limited = 0  # its jobs end
    slurm.polls.poll(2 * RARE_NODE_POLL_S + 1)
    assert slurm.found == [7 * GIB, 0]
    slurm.withdrawn, slurm.allocated = "", 0
    slurm.polls.poll(2 * RARE_NODE_POLL_S + 2 * NODE_POLL_S)  # a drained node is polled often
    assert slurm.found == [7 * GIB, 0, 8 * GIB]
    text = capfd.readouterr().err
    assert "node a is DRAIN: all slabs are given back" in text
    assert "node a is in use again" in text


def test_what_is_no_record_is_one_line() -> None:
    with pytest.raises(Unavailable, match="no RealMemory in 'Node a not found'"):
        parsed_node("Node a not found")


class Slurm:
    """The answers of scontrol, the limits of cgroups, and what is reported."""

    def __init__(self, total: int = 8 * GIB) -> None:
        self.total, self.allocated, self.limited, self.calls = total, 0, 0, 0
        self.answers, self.found, self.withdrawn = True, list[int](), ""
        self.polls = SlurmAllocation("a", self.found.append, self.show, lambda: self.limited)

    def show(self, node: str) -> NodeRecord:
        self.calls += 1
        if not self.answers:
            raise Unavailable("no slurmctld")
        return NodeRecord(self.total, self.allocated, self.withdrawn)


def test_cgroups_count_alone_once_they_agree_and_slurm_is_called_rarely() -> None:
    slurm, now = Slurm(), 100.0
    slurm.polls.poll(now)
    slurm.limited = 2 * GIB  # a job starts
    slurm.polls.poll(now + 1)
    assert slurm.found == [8 * GIB, 6 * GIB]
    slurm.allocated = 2 * GIB
    slurm.polls.poll(now + 2 * NODE_POLL_S)
    slurm.limited = 0  # it ends
    slurm.polls.poll(now + 2 * NODE_POLL_S + 1)
    assert (slurm.found[-1], slurm.calls) == (8 * GIB, 2)
    slurm.polls.poll(now + 4 * NODE_POLL_S)
    assert slurm.calls == 2
    slurm.polls.poll(now + 2 * NODE_POLL_S + 2 * RARE_NODE_POLL_S)
    assert (slurm.found[-1], slurm.calls) == (6 * GIB, 3)  # it has no cgroup: what Slurm reports counts


def test_a_slurm_that_does_not_answer_leaves_what_is_known(capfd: pytest.CaptureFixture[str]) -> None:
    slurm = Slurm()
    slurm.answers = False
    slurm.polls.poll(0.0)
    slurm.polls.poll(2 * NODE_POLL_S)
    assert slurm.found == []
    assert capfd.readouterr().err.count("most_mib alone bounds what is lent: Slurm does not report node a") == 1
    slurm.answers, slurm.allocated = True, GIB
    slurm.polls.poll(4 * NODE_POLL_S)
    slurm.answers = False
    slurm.polls.poll(6 * NODE_POLL_S)
    assert slurm.found == [7 * GIB]
    assert "what it reported last bounds what is lent" in capfd.readouterr().err


def test_limits_of_cgroups_are_summed(tmp_path: Path) -> None:
    for job, limit in (
        ("job_1", "1048576"),
        ("job_2", "4096"),
        ("job_3", "max"),
        ("job_4", str(2**63 - 4096)),
        ("other", "1"),
        ("job_5", "8192"),
    ):
        (tmp_path / job / "step_0").mkdir(parents=True)
        (tmp_path / job / "memory.max").write_text(limit)
        (tmp_path / job / "cgroup.procs").touch()
        (tmp_path / job / "step_0/cgroup.procs").write_text("" if job == "job_5" else "17\n")  # Slurm left it behind
    assert limited_by_cgroups([f"{tmp_path}/job_*/memory.max"]) == 1048576 + 4096


@given(
    unallocated=st.integers(0, 64 * GIB),
    used=st.integers(0, 64 * GIB),
    ready=st.integers(0, 50),
    mapped=st.integers(0, 500),
)
def test_no_more_is_lent_than_slurm_has_not_allocated(unallocated: int, used: int, ready: int, mapped: int) -> None:
    memory = DonorMemory(64 * GIB, 1 << 26, GIB, 1000, 2)
    memory.measure(used, 0.0)
    memory.bound(unallocated)
    counts = SlabCounts(ready, mapped, 0)
    decision = memory.decide(counts)
    left = ready + mapped + decision.allocate - decision.release - decision.evict
    assert left <= max(unallocated >> 26, 0) or decision.release + decision.evict == ready + mapped
    assert memory.available_slabs(counts) + mapped <= max(unallocated >> 26, mapped)


def test_without_slurm_a_donor_lends_by_most_mib(start_donor: StartDonor) -> None:
    donor = start_donor(slurm_node="no-such-node")
    until(lambda: "most_mib alone bounds what is lent" in donor.log, "a line", 20)
    found = donor.statistics()
    assert found["unallocated_bytes"] is None
    assert found["available_slabs"] == 32


@pytest.fixture
def limited_cluster() -> Callable[[], Cluster]:
    def start() -> Cluster:
        if reason := missing():
            pytest.skip(reason)
        spec = ClusterSpec(
            name=f"lends-{os.getpid()}", nodes=1, gpus_per_node=0, memory_limits=True, hooks=False, memory_mb=1024
        )
        return Cluster.up(spec, report=print)

    return start


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.xdist_group("job swap")
def test_jobs_of_slurm_take_memory_from_what_is_lent(limited_cluster: Callable[[], Cluster]) -> None:
    """RealMemory is 1024 MiB; a job with --mem=512M leaves 512 for the donor, and returns them at its end."""
    cluster = limited_cluster()
    try:
        folder = cluster.shared / "donor"
        folder.mkdir()
        node = cluster.run(["sinfo", "-hNo", "%N"]).stdout.split()[0]
        content = {
            "listen": f"127.0.0.1:{PORT}", "service_key_file": "/shared/donor/key", "most_mib": 4096, "slab_mib": 16,
            "headroom_mib": 16, "ready_slabs": 0, "slurm_node": node,
        }  # fmt: skip
        for name, text in (("key", SERVICE_KEY.hex()), ("donor.json", json.dumps(content))):
            (folder / name).touch(mode=0o600)
            (folder / name).write_text(text)
        command = "python3 -m tiresias.services.remote_memory.donor /shared/donor/donor.json > /shared/donor/log 2>&1 &"
        cluster.run(["sh", "-c", command])
        until(lambda: statistics(cluster).get("unallocated_bytes") == GIB, "the donor reads the node")
        job = cluster.run(
            ["sbatch", "--parsable", "--mem=512M", "--output=/dev/null", "--wrap", "sleep 600"], user="alice"
        )
        until(lambda: statistics(cluster).get("unallocated_bytes") == GIB // 2, "the job's memory is not lent", 30)
        assert statistics(cluster)["available_slabs"] <= 32
        cluster.run(["scancel", job.stdout.strip()])
        until(lambda: statistics(cluster).get("unallocated_bytes") == GIB, "the job's memory is lent again", 100)
    finally:
        cluster.down()


def statistics(cluster: Cluster) -> dict[str, int]:
    words = ["python3", f"{HERE}/donor_statistics.py", f"127.0.0.1:{PORT}", SERVICE_KEY.hex()]
    found: dict[str, int] = json.loads(cluster.run(words).stdout)
    return found
