"""What users see of a job's remote memory on a private Slurm: refusals of each node, and figures of jobs of sbatch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.remote_memory.job_swap.swap_cluster import end, log, out, submit, swap_cluster
from tests.services.remote_memory.job_swap.swap_node import until
from tiresias.protocol import remote_memory_use
from tiresias.protocol.remote_memory_use import RemoteMemoryUse
from tiresias.sandbox.cluster import Cluster
from tiresias.slurm_plugin.commands.ended_job_memory import memory_use

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.xdist_group("job swap")]
TASK_EPILOG = """#!/bin/sh
export PATH=/usr/bin:/bin PYTHONPATH=/opt/tiresias/src
exec python3 -m tiresias.services.remote_memory.job_swap lines
"""
ROOTS = {
    "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control",
    "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints",
}
TOO_MUCH = "remote-mem of 2048 MiB: this node gives 1024 MiB to a job"


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Cluster]:
    """A cluster with two nodes, of which each gives 1 GiB to a job."""
    settings = {"TaskEpilog": "/shared/task-epilog.sh", "Licenses": "remote_memory:100"}
    with swap_cluster("reports", nodes=2, spec={"settings": settings}, most_mib=1024) as cluster:
        for folder in ("control", "checkpoints"):
            (cluster.shared / "tiresias" / folder).mkdir(parents=True)
            (cluster.shared / "tiresias" / folder).chmod(0o1777)
        file = cluster.shared / "task-epilog.sh"
        file.write_text(TASK_EPILOG)
        file.chmod(0o755)
        yield cluster


def control_root(cluster: Cluster) -> Path:
    return cluster.shared / "tiresias/control"


def uid_of(cluster: Cluster, user: str) -> int:
    return int(cluster.run(["id", "-u", user]).stdout)


def published(cluster: Cluster, user: str, job: str) -> list[RemoteMemoryUse]:
    uid = uid_of(cluster, user)
    return remote_memory_use.read_all(control_root(cluster) / str(uid) / job, uid)


def test_each_node_of_a_job_that_refuses_has_a_line_and_a_report(two_nodes: Cluster) -> None:
    options = ("--nodes=2", "--remote-mem=2G")
    job = submit(two_nodes, "alice", 8, *options, by="tsbatch", until_file="reported", env=ROOTS)
    until(lambda: len(published(two_nodes, "alice", job)) == 2, "both nodes report", 30)
    assert [each.refused for each in published(two_nodes, "alice", job)] == [TOO_MUCH] * 2
    (two_nodes.shared / "reported").touch()
    assert end(two_nodes, job) == "COMPLETED", out(two_nodes, job)
    lines = [each for each in out(two_nodes, job).splitlines() if "remote memory:" in each]
    assert len(lines) == 2
    for node, line in zip(("gpu01", "gpu02"), sorted(lines), strict=True):
        assert line.endswith(f"remote memory: this job runs without it on node {node}: {TOO_MUCH}")


def test_a_job_of_sbatch_has_a_line_at_its_end_and_figures_for_explain(two_nodes: Cluster) -> None:
    job = submit(two_nodes, "bob", 96, "--extra=remote-mem=160M")
    assert end(two_nodes, job) == "COMPLETED", out(two_nodes, job)
    (line,) = [each for each in out(two_nodes, job).splitlines() if "remote memory:" in each]
    assert re.search(
        r"remote memory: [\d,]+ MiB out, [\d,]+ MiB in \(0 MiB from donors, .* s in reads and writes$", line
    )
    until(lambda: published(two_nodes, "bob", job), "its figures are published", 30)
    uid = uid_of(two_nodes, "bob")
    found = memory_use(job, uid, control_root(two_nodes))
    assert found is not None
    assert (found["nodes"], found["requested"], found["refused"]) == (1, 160, [])
    assert min(found["written"], found["read"], found["from_disk"]) > 20
    folder = control_root(two_nodes) / str(uid) / job
    assert {each.lstat().st_uid for each in (folder, *folder.rglob("*"))} == {uid}


def test_a_refusal_of_a_job_of_sbatch_is_published_by_the_epilog_as_that_of_its_task(two_nodes: Cluster) -> None:
    job = submit(two_nodes, "alice", 8, "--extra=remote-mem=0", "--array=3")
    until(lambda: f"job {job} runs without it" in log(two_nodes, "prolog"), "the prolog refuses")
    (report,) = until(lambda: published(two_nodes, "alice", f"{job}_3"), "its refusal is published", 30)
    assert "size above 0" in report.refused
    text = until(lambda: (two_nodes.shared / f"{int(job)}.out").read_text(), "its output", 30)
    assert "this job runs without it on node" in text


def test_a_job_without_a_request_has_no_line_and_no_folder(two_nodes: Cluster) -> None:
    job = submit(two_nodes, "bob", 8)
    assert end(two_nodes, job) == "COMPLETED"
    assert out(two_nodes, job).split() == ["filled", "checked"]
    assert not (control_root(two_nodes) / str(uid_of(two_nodes, "bob")) / job).exists()
