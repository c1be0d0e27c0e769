"""Virtual clusters on a real Slurm: guaranteed jobs get their cells, which the journal keeps; opportunistic jobs are preempted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


def table(name: str, nodes: int, **keys: Any) -> dict[str, Any]:
    return {"name": name, "cells": [{"level": "node", "count": nodes}], "accounts": [name], **keys}


TABLES = [table("prod", 2), table("research", 2)]
SHARED = {"policy": {"admission": "virtual_clusters", "name": "fifo"}, "placement": {"trial": "anywhere"}}


@pytest.fixture
def clusters(centre: Centre) -> Iterator[Centre]:
    """Two virtual clusters of two nodes each, of four nodes with four GPUs."""
    centre.restart(virtual_clusters=TABLES, **SHARED)
    yield centre
    centre.stop("KILL")
    centre.clean()


def train(clusters: Centre, account: str, *options: str, **more: Any) -> str:
    return clusters.train(f"--account={account}", *options, gpus=4, **more)


def guaranteed(clusters: Centre, *jobs: str) -> list[bool]:
    return [clusters.published(job).get("guaranteed", False) for job in jobs]  # a job may be missing for a cycle


def published_nodes(clusters: Centre, job: str) -> list[Any]:
    """Return the nodes of a running job, which are published a cycle later than Slurm shows them."""
    return clusters.wait_until(lambda: clusters.published(job)["nodes"], "its nodes are not published", job)


def cells(clusters: Centre, job: str) -> str:
    """Return the cells of the job's newest run, as the journal has them."""
    query = "select cells from run join job using (key) where id = '{}' order by restart desc limit 1"
    return str(clusters.query_journal(query.format(job))[0][0])


def fill(clusters: Centre) -> list[str]:
    """Let research run on all four nodes: two jobs in its cells, two beyond them."""
    jobs = [train(clusters, "research") for _ in range(4)]
    for job in jobs:
        clusters.wait_until_preemptable(job)
    clusters.wait_until(lambda: sum(guaranteed(clusters, *jobs)) == 2, "not two jobs of four are guaranteed", *jobs)
    return jobs


def test_a_guaranteed_job_preempts_an_opportunistic_one(clusters: Centre) -> None:
    jobs = fill(clusters)
    owner = train(clusters, "prod", user="bob")
    clusters.wait_for_state(owner, "RUNNING")
    clusters.wait_until(lambda: guaranteed(clusters, owner) == [True], "the owner's job has no cells", owner)
    restarts = [int(clusters.show(job)["Restarts"]) for job in jobs]
    kept = guaranteed(clusters, *jobs)
    assert sorted(restarts) == [0, 0, 0, 1], "one job is preempted, and no other"
    assert not kept[restarts.index(1)], "it is one of those without cells"
    [(node, _)] = published_nodes(clusters, owner)
    assert cells(clusters, owner) == f"{node}=node"
    queues = [queue["virtual_cluster"] for queue in clusters.status()["queues"]]
    assert list(dict.fromkeys(queues)) == ["prod", "research", ""]


def test_a_job_gets_other_nodes_where_those_that_it_names_are_too_few(clusters: Centre) -> None:
    """All nodes are in use. Prod owns two, and its job names one of them, on which a job runs beyond the cells of research."""
    jobs = fill(clusters)
    beyond = next(job for job, kept in zip(jobs, guaranteed(clusters, *jobs), strict=True) if not kept)
    [(name, _)] = published_nodes(clusters, beyond)
    owner = clusters.train("--account=prod", "--nodes=2", f"--nodelist={name}", gpus=8, user="bob")
    clusters.wait_for_state(owner, "RUNNING")
    clusters.wait_until(lambda: guaranteed(clusters, owner) == [True], "the owner's job has no cells", owner)
    nodes = [node for node, _ in published_nodes(clusters, owner)]
    assert name in nodes
    assert cells(clusters, owner) == ",".join(f"{node}=node" for node in sorted(nodes))
    assert sorted(int(clusters.show(job)["Restarts"]) for job in jobs) == [0, 0, 1, 1]


def test_a_job_for_which_too_few_nodes_have_the_cpus_is_overtaken(clusters: Centre) -> None:
    """Jobs without GPUs, which the controller does not manage, hold CPUs of three nodes. The first job of prod needs two others."""
    clusters.restart(virtual_clusters=TABLES, **SHARED | {"policy": {"admission": "virtual_clusters", "name": "las"}})
    for node in ("gpu01", "gpu02", "gpu03"):
        clusters.wait_for_state(clusters.submit("--cpus-per-task=8", f"--nodelist={node}", gpus=0), "RUNNING")
    lacks = clusters.train("--account=prod", "--nodes=2", "--cpus-per-task=4", gpus=8, user="bob")
    words = "waits: virtual cluster prod has enough GPUs for it, but on no nodes that fit what it asks for"
    clusters.wait_until(lambda: words in clusters.published(lacks).get("why", ""), "it has another reason", lacks)
    others = [train(clusters, "prod") for _ in range(2)]
    for job in others:
        clusters.wait_for_state(job, "RUNNING")
    clusters.wait_until(lambda: all(guaranteed(clusters, *others)), "they run beyond the cells", *others)
    assert clusters.state(lacks) == "PENDING"


def test_a_killed_controller_finds_the_cells_in_the_journal(clusters: Centre) -> None:
    jobs = fill(clusters)
    before = {job: (guaranteed(clusters, job), cells(clusters, job)) for job in jobs}
    clusters.stop("KILL")
    clusters.start(clusters.config)
    clusters.wait_for_cycles()
    assert {job: (guaranteed(clusters, job), cells(clusters, job)) for job in jobs} == before
    clusters.cancel(next(job for job in jobs if before[job][0] == [True]))
    clusters.wait_until(lambda: sum(guaranteed(clusters, *jobs)) == 2, "no other job gets the free cell", *jobs)
    assert {clusters.show(job)["Restarts"] for job in jobs} == {"0"}, "it gets it where it runs"


def test_a_bad_node_is_avoided(clusters: Centre) -> None:
    clusters.scontrol("update", "NodeName=gpu01", "State=DRAIN", "Reason=test")
    try:
        job = train(clusters, "prod")
        clusters.wait_for_state(job, "RUNNING")
        clusters.wait_until(lambda: guaranteed(clusters, job) == [True], "the job has no cells", job)
        assert published_nodes(clusters, job) != [["gpu01", 4]]
    finally:
        clusters.scontrol("update", "NodeName=gpu01", "State=RESUME")


def test_a_reload_takes_no_cells_from_a_running_job(clusters: Centre) -> None:
    jobs = [train(clusters, "prod") for _ in range(2)]
    for job in jobs:
        clusters.wait_for_state(job, "RUNNING")
    clusters.wait_until(lambda: guaranteed(clusters, *jobs) == [True, True], "the jobs have no cells", *jobs)
    clusters.change_virtual_clusters([table("prod", 1), table("research", 3)])
    refused = clusters.command("reload", "--config", clusters.config)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "virtual cluster prod: job" in refused.stderr
    assert "runs in cells that this change takes from it" in refused.stderr
    clusters.change_virtual_clusters([table("prod", 2), table("research", 1)])
    accepted = clusters.command("reload", "--config", clusters.config)
    assert accepted.returncode == 0, accepted.stderr
    clusters.wait_for_cycles()
    assert guaranteed(clusters, *jobs) == [True, True]


def change_admission(clusters: Centre, admission: str, *, tables: bool) -> None:
    """Write another admission, with the tables of virtual clusters or without them."""
    file = clusters.cluster.shared / clusters.config.rpartition("/")[2]
    text = file.read_text().replace("admission = 'virtual_clusters'", f"admission = '{admission}'")
    file.write_text(text if tables else text.partition("\n[[")[0])


@pytest.mark.parametrize(("admission", "tables"), [("shared", False), ("private_clusters", True)])
def test_a_reload_to_another_admission_takes_no_cells(clusters: Centre, admission: str, tables: bool) -> None:
    job = train(clusters, "prod", seconds=300)
    clusters.wait_for_state(job, "RUNNING")
    clusters.wait_until(lambda: guaranteed(clusters, job) == [True], "the job has no cells", job)
    change_admission(clusters, admission, tables=tables)
    refused = clusters.command("reload", "--config", clusters.config)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert f"virtual cluster prod: job {job} runs in cells that this change takes from it" in refused.stderr
    clusters.wait_for_cycles()
    assert guaranteed(clusters, job) == [True]
    clusters.stop("KILL")
    clusters.start(clusters.config)
    line = f"job {job} runs in cells that its virtual cluster does not have now"
    clusters.wait_until(lambda: any(line in each for each in clusters.log()), "the start does not report it", job)
    clusters.cancel(job)
    clusters.wait_until(lambda: not clusters.published(job), "it is still there", job)


def test_a_reload_pins_a_cell_to_a_node_or_is_refused(clusters: Centre) -> None:
    def pinned(nodes: str) -> dict[str, Any]:
        return table("prod", 1) | {"cells": [{"level": "node", "nodes": nodes}]}

    for nodes, tables, text in (
        ("gpu99", [table("research", 2)], "virtual cluster prod: nodes = gpu99: there is no node gpu99 with GPUs"),
        ("gpu03", [pinned("gpu03") | {"name": "b", "accounts": ["b"]}], "node gpu03 belongs to virtual cluster prod"),
    ):
        clusters.change_virtual_clusters([pinned(nodes), *tables])
        refused = clusters.command("reload", "--config", clusters.config)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert text in refused.stderr
    clusters.change_virtual_clusters([pinned("gpu03"), table("research", 2)])
    accepted = clusters.command("reload", "--config", clusters.config)
    assert accepted.returncode == 0, accepted.stderr
    job = train(clusters, "prod")
    clusters.wait_for_state(job, "RUNNING")
    clusters.wait_until(lambda: guaranteed(clusters, job) == [True], "the job has no cells", job)
    assert published_nodes(clusters, job) == [["gpu03", 4]]
    assert "pinned: gpu03" in clusters.command("cells").stdout


def test_cells_that_do_not_fit_are_refused_at_the_start(clusters: Centre) -> None:
    clusters.stop()
    clusters.change_virtual_clusters([table("prod", 3), table("research", 3)])
    started = clusters.command("controller", "--config", clusters.config)
    assert started.returncode == 2, started.stderr
    assert "virtual clusters own 6 cells of type node" in started.stderr.splitlines()[-1]
