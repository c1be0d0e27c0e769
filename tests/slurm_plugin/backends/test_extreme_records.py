"""Extreme values in any field of any record: no exception, and other jobs are shown to `decide` as if the record were not there.

`make test-records` does the same with 100,000 records.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.slurm_plugin.backends import extremes
from tests.slurm_plugin.backends.extreme_records import Campaign
from tests.slurm_plugin.backends.fake_slurm import Answers, Commands, Pyslurm
from tiresias.scheduler.host_lists import MAX_HOSTS, hosts
from tiresias.slurm_plugin.backends import bounds, parse, records, unreadable
from tiresias.slurm_plugin.backends.interface import JobRefused

versions = pytest.mark.parametrize("version", extremes.VERSIONS)
READ = (
    "job_id", "array_job_id", "array_task_id", "array_task_string", "het_job_id", "het_job_offset", "name", "user_name", "user_id",
    "account", "partition", "job_state", "state_reason", "priority", "restart_cnt", "submit_time", "eligible_time", "start_time",
    "end_time", "time_limit", "node_count", "max_nodes", "cpus", "tasks", "sockets_per_node", "tres_per_job", "tres_per_task",
    "tres_per_node", "tres_per_socket", "tres_req_str", "memory_per_node", "memory_per_cpu", "features", "required_nodes",
    "excluded_nodes", "nodes", "gres_detail", "job_resources", "requeue", "batch_flag", "resv_name", "dependency", "exit_code",
    "command", "qos", "licenses", "array_max_tasks", "shared",
)  # fmt: skip


def passes(campaign: Campaign) -> None:
    assert not campaign.failures, campaign.failures[0]
    assert [campaign.counts[name] for name in ("exceptions", "affected", "unbounded")] == [0, 0, 0]


def base(version: str, name: str, job_id: int) -> dict[str, Any]:
    """A captured record: "full" and "typed" wait, "uneven" runs, "array" has waiting tasks."""
    real = extremes.captured(version)
    (found, *_) = [one for one in real["jobs"] if one["job_id"] == int(real["ids"][name])]
    return extremes.fresh(found, job_id)


@versions
@pytest.mark.parametrize("name", ["typed", "uneven"])
def test_extreme_values_in_each_field(version: str, name: str) -> None:
    """A tenth of the values in each field, others in the next one."""
    campaign, made = Campaign(seed=0), list[dict[str, Any]]()
    for at, field in enumerate(READ):
        for value in extremes.VALUES[at % 10 :: 10]:
            made.append(base(version, name, extremes.FIRST_ID + len(made)))
            extremes.put(made[-1], (field,), value)
    for first in range(0, len(made), 400):
        campaign.batch(version, made[first : first + 400], [])
    passes(campaign)
    assert campaign.counts["unreadable"] > 50
    assert campaign.counts["managed"] > 50


@versions
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(rng=st.randoms(use_true_random=False))
def test_random_records(version: str, rng: random.Random) -> None:
    campaign, job_ids = Campaign(seed=0), iter(range(extremes.FIRST_ID, 2 * extremes.FIRST_ID))
    jobs = [
        extremes.extreme(rng, base(version, rng.choice(("full", "uneven", "array", "het")), next(job_ids)), 9)
        for _ in range(10)
    ]
    node = extremes.extreme(rng, {**extremes.captured(version)["nodes"][0], "name": "x1"}, 4)
    campaign.batch(version, jobs, [node])
    passes(campaign)


OVERFLOWING = {
    "tres_per_socket": "gres/gpu:900000000000",
    "sockets_per_node": 65000,
    "node_count": 2_000_000,
    "tres_per_job": "",
}
TOO_MUCH: dict[str, dict[str, Any]] = {
    "1000000000 GPUs": OVERFLOWING,
    "10000000 nodes": {"node_count": 10_000_001},
    "1000000000 CPUs": {"cpus": 2**32 - 3},
    "1000000000 tasks": {"tasks": 4_000_000_000},
    "1000000000000 MiB of memory": {"memory_per_node": 2**64 - 3},
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_no_cluster_has_is_left_to_slurm(what: str) -> None:
    record = {**base("22.05.8", "full", 900), **TOO_MUCH[what]}
    (job,) = records.jobs(record, 0.0)
    assert job.unmanaged == f"cannot run: requests more than {what}"
    (running,) = records.jobs({**record, "job_state": "RUNNING"}, 0.0)
    assert running.unmanaged == "", "what runs can run"


def test_the_largest_request_that_is_managed() -> None:
    (job,) = records.jobs(
        {**base("22.05.8", "full", 900), "tres_per_job": "gres:gpu:1000000000", "tres_per_node": ""}, 0.0
    )
    assert (job.gpus, job.unmanaged) == (bounds.MAX_GPUS, "")


def test_lists_without_end_are_cut() -> None:
    """Expanded, each of them would take all memory."""
    assert len(hosts("n[1-99999999999]")) == MAX_HOSTS
    assert len(hosts("n[0-99999][0-99999]")) == MAX_HOSTS
    assert len(hosts("n[0-99999]" * 6000)) == 1
    assert len(hosts("n" * 60_000 + "[0-99999]")) == 1
    assert hosts("gpu[01-04]," * 6000) == ("gpu01", "gpu02", "gpu03", "gpu04")
    assert len(parse.array_tasks("0-4000000000%1")) == bounds.MAX_ARRAY_TASKS + 1
    assert parse.gpus("gpu:4(IDX:0-999999999)") == (4, "", ())


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("array_task_string", "0-4000000000%1", "not managed: array of more than 100000 waiting tasks"),
        ("excluded_nodes", "n[1-99999999999]", "not managed: a host list of more than 100000 nodes"),
    ],
)
def test_a_list_that_was_cut_is_not_acted_on(field: str, value: str, words: str) -> None:
    jobs = list(records.jobs({**base("24.11.5", "array", 900), field: value}, 0.0))
    assert {job.unmanaged for job in jobs} == {words}


@pytest.mark.parametrize("backend", ["commands", "pyslurm"])
def test_a_record_that_cannot_be_read_is_a_job_of_which_only_the_id_is_known(backend: str) -> None:
    real = extremes.captured("26.05.5")
    broken = {**base("26.05.5", "full", 900), "partition": {"set": True}}
    answers = Answers("26.05.5", [*real["jobs"], broken, {"job_id": {}}], [*real["nodes"], {"name": "x1"}])
    rows = [extremes.row(one) for one in answers.jobs]
    site = Commands(answers) if backend == "commands" else Pyslurm(answers, rows)
    found = site.snapshot()
    (job,) = [job for job in found.jobs if not job.readable]
    assert (job.id, job.raw_id, job.unmanaged) == (
        "900",
        900,
        "its record cannot be read: TypeError: partition: {'set': True} is no text",
    )
    assert len(found.jobs) > 10
    assert [one.partition(":")[0] for one in found.unreadable[-2:]] == ["a job's record has no job id", "node x1"]
    with pytest.raises(JobRefused, match="job 900: its record cannot be read"):
        site.job("900")


def test_a_job_keeps_the_gpus_it_held_while_its_record_cannot_be_read() -> None:
    record = base("26.05.5", "uneven", 900)
    site = Commands(Answers("26.05.5", [record], []))
    (before,) = site.snapshot().jobs
    site._answers.jobs = [{}, {**record, "partition": 5}]  # another place: its signature changed
    (after,) = site.snapshot().jobs
    assert not after.readable
    assert after.shares == before.shares != ()


def test_reports_name_no_more_than_a_line() -> None:
    reports: list[str] = []
    assert unreadable.jobs([None, [], {"job_id": "x" * 10_000}], 0.0, reports.append) == []
    assert len(reports) == 3
    assert max(map(len, reports)) < 300


def test_what_utf8_cannot_encode_is_replaced() -> None:
    node = records.node({**extremes.captured("22.05.8")["nodes"][0], "state": "\ud800", "name": "x\ud800"})
    assert (node.name, node.flags) == ("x?", frozenset({"?"}))
    record = base("22.05.8", "uneven", 900)
    extremes.put(record, ("job_resources", "allocated_nodes", 0, "nodename"), "\ud800")
    record["nodes"] = "?,gpu02"
    (job,) = records.jobs({**record, "name": "a\ud800"}, 0.0)
    assert (job.name, [share.node for share in job.shares]) == ("a?", ["?", "gpu02"])
