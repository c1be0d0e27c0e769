"""What viewers show of virtual clusters on a real Slurm: cells, explain, metrics, comments and the guarantee."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.slurm_plugin.views.cell_metrics import cell_metrics

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

TABLES = [{"name": name, "cells": [{"level": "node", "count": 2}], "accounts": [name]} for name in ("prod", "research")]


@pytest.fixture
def clusters(centre: Centre) -> Iterator[Centre]:
    """Two virtual clusters of two nodes each; jobs of research run on all four nodes, two of them opportunistically."""
    shared = {"admission": "virtual_clusters", "name": "fifo"}
    centre.restart(virtual_clusters=TABLES, policy=shared, placement={"trial": "anywhere"})
    jobs = [centre.train("--account=research", gpus=4, habit="slow") for _ in range(4)]
    for job in jobs:
        centre.wait_until_preemptable(job)
    centre.wait_until(lambda: cluster(centre, "research")["guaranteed"] == 8, "not two of them are guaranteed", *jobs)
    yield centre
    centre.stop("KILL")
    centre.clean()


def cluster(centre: Centre, name: str) -> dict[str, Any]:
    return next(each for each in centre.status()["virtual_clusters"] if each["name"] == name)


def test_a_preemption_for_a_guaranteed_job_in_all_views(clusters: Centre) -> None:
    research = cluster(clusters, "research")
    assert (research["gpus"], research["opportunistic"], research["free"]) == (8, 8, 0)
    cells = json.loads(clusters.command("cells", "--json").stdout)
    assert [each["state"] for each in cells["hardware"][0]["parts"]].count("opportunistic") == 2
    owner = clusters.train("--account=prod", gpus=4, user="bob")
    waits = re.compile(
        r"waits: virtual cluster prod owns 2 more nodes; job \d+ runs on one of them \(gpu0\d\) opportunistically and is being "
        "preempted"
    )
    clusters.wait_until(
        lambda: waits.search(clusters.published(owner).get("why", "")), "explain has no such reason", owner
    )
    assert cluster(clusters, "prod")["waiting"] == 1
    clusters.wait_for_state(owner, "RUNNING")
    clusters.wait_until(lambda: cluster(clusters, "prod")["kept"] == 1, "the start is not counted", owner)
    prod = cluster(clusters, "prod")
    assert (prod["guaranteed"], prod["waiting"], prod["broken"]) == (4, 0, 0)
    assert "in a node of virtual cluster prod" in clusters.command("explain", owner).stdout
    shown = clusters.command("cells", "--virtual-cluster", "prod").stdout
    assert re.search(rf"^node prod/\d +gpu0\d +used +4/4 {owner}:4$", shown, re.MULTILINE)
    families = {family.name: family for family in cell_metrics(clusters.status()["virtual_clusters"])}
    starts = {tuple(one.labels.values()): one.value for one in families["tiresias_virtual_cluster_starts"].samples}
    assert (starts["prod", "kept"], starts["prod", "broken"]) == (1, 0)


def test_a_waiting_job_names_what_it_lacks(clusters: Centre) -> None:
    late = clusters.train("--account=research", gpus=4)
    lacks = "waits: it needs 1 node of virtual cluster research, which owns 2 nodes, all in use; its cells are held by jobs "
    clusters.wait_until(
        lambda: clusters.published(late).get("why", "").startswith(lacks), "it has another reason", late
    )
    squeue = ["squeue", "-h", "-j", late, "-O", "admin_comment:120"]
    place = "Tiresias: 1st of 1 in virtual cluster research; needs 4 GPUs"
    clusters.wait_until(lambda: place in clusters.cluster.run(squeue).stdout, "it has no comment", late)


def test_the_doctor_checks_the_tables(clusters: Centre) -> None:
    found = json.loads(clusters.command("doctor", "--json", "--config", clusters.config).stdout)
    words = [one["words"] for one in found if one["about"].startswith("virtual cluster")]
    assert "the cells of 2 fit into the nodes" in words
