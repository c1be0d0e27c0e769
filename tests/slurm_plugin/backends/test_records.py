"""Records as Slurm 22.05, 24.11 and 26.05 wrote them (data/: what a private cluster printed, operating system left out)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tiresias.slurm_plugin.backends import records
from tiresias.slurm_plugin.backends.interface import SlurmJob

Capture = dict[str, Any]
Jobs = dict[str, list[SlurmJob]]
DATA = sorted(Path(__file__).with_name("data").glob("slurm-*.json"))


@pytest.fixture(params=DATA, ids=lambda path: path.stem)
def captured(request: pytest.FixtureRequest) -> Capture:
    found: Capture = json.loads(request.param.read_text())
    return found


@pytest.fixture
def jobs(captured: Capture) -> dict[str, list[SlurmJob]]:
    """By the name that the capture gave them."""
    found = [job for record in captured["jobs"] for job in records.jobs(record, captured["time"])]
    names = {int(number): name for name, number in captured["ids"].items()}
    return {name: [job for job in found if names.get(job.het_id or job.raw_id) == name] for name in captured["ids"]}


def test_three_slurms_were_captured() -> None:
    assert [path.stem[:11] for path in DATA] == ["slurm-22.05", "slurm-24.11", "slurm-26.05"]


def test_an_uneven_spread(jobs: Jobs) -> None:
    (job,) = jobs["uneven"]
    assert (job.state, job.gpus, job.cpus, job.min_nodes) == ("RUNNING", 5, 5, 2)
    assert sorted(share.gpus for share in job.shares) == [1, 4]
    assert [share.gpus for share in job.shares] == [share.cpus for share in job.shares]
    assert [share.memory for share in job.shares] == [100 * share.cpus for share in job.shares]
    assert [len(share.gpu_indexes) for share in job.shares] == [share.gpus for share in job.shares]


def test_a_requeued_job_that_completes(jobs: Jobs, captured: Capture) -> None:
    (job,) = jobs["completing"]
    assert (job.state, job.completing, job.restarts, job.start_time, job.end_time) == ("PENDING", True, 1, 0, 0)
    assert [(share.node, share.gpus) for share in job.shares] == [("gpu03", 2)]


def test_a_requeued_job_whose_node_had_lost_it_is_a_batch_job(captured: Capture) -> None:
    """Then 22.05 writes false for its BatchFlag=2 (measured). An allocation of srun is never requeued."""
    number = int(captured["ids"]["completing"])
    record = next(one for one in captured["jobs"] if records.number_of(one) == number)
    first = {"restart_cnt": {"set": True, "infinite": False, "number": 0}, "batch_flag": False}
    (lost,) = records.jobs(record | {"batch_flag": False}, captured["time"])
    (allocation,) = records.jobs(record | first, captured["time"])
    assert (lost.batch, allocation.batch) == (True, False)


def test_ends(jobs: Jobs) -> None:
    assert [(job.state, job.exit_code, job.shares) for job in (*jobs["failed"], *jobs["killed"])] == [
        ("FAILED", 3, ()),
        ("FAILED", 137, ()),
    ]


def test_an_array_and_a_het_job(jobs: Jobs, captured: Capture) -> None:
    array, leader = captured["ids"]["array"], captured["ids"]["het"]
    assert [job.id for job in jobs["array"]] == [f"{array}_{task}" for task in (1, 2, 3, 4, 5, 9)]
    assert {(job.id, job.gpus) for job in jobs["het"]} == {(f"{leader}+0", 1), (f"{leader}+1", 2)}


def test_a_full_request(jobs: Jobs) -> None:
    (job,) = jobs["full"]
    assert (job.partition, job.required_nodes, job.excluded_nodes) == ("gpu,other", ("gpu01",), ("gpu02", "gpu03"))
    assert (job.features, job.memory_per_node, job.memory_per_cpu, job.requeue, job.batch) == (
        "rack1",
        1000,
        0,
        False,
        True,
    )
    assert (job.time_limit, job.begin_time - job.submit_time, job.held_by_user) == (86460, 3600, True)
    assert job.dependency.startswith("afterany:")


def test_typed_gpus_on_two_nodes(jobs: Jobs) -> None:
    (job,) = jobs["typed"]
    assert (job.gpus, job.gpu_type, job.gpus_per_node, job.min_nodes, job.max_nodes) == (6, "v100", 3, 2, 2)


def test_a_hostile_name_stays_a_name(jobs: Jobs) -> None:
    (job,) = jobs["hostile"]
    assert job.name == 'x\nJobId=1 JobState=RUNNING "q" \x1b[31m'
    assert (job.id, job.state, job.gpus) == (str(job.raw_id), "PENDING", 1)


def test_nodes(captured: Capture) -> None:
    first, drained = map(records.node, captured["nodes"])
    assert (first.name, first.state, first.usable, first.gpus, first.gpus_allocated, first.gpu_type) == (
        "gpu01",
        "MIXED",
        True,
        4,
        4,
        "v100",
    )
    assert (first.cpus, first.cpus_allocated, first.memory, first.features, first.partitions) == (
        16,
        4,
        64000,
        ("rack1",),
        ("gpu", "other"),
    )
    assert (drained.flags, drained.reason, drained.usable) == (frozenset({"DRAIN"}), "bad dimm", False)
