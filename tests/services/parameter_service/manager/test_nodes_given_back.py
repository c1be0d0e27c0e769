"""Aggregators' nodes are given back to Slurm while a job trains: a drained node, a job of higher priority, Slurm's preemption."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from tests.conftest import ClusterOf
from tests.services.parameter_service.numpy_training import alone
from tests.services.parameter_service.service_on_slurm import Service, until
from tests.services.parameter_service.test_training_on_slurm import STEPS, output, submit
from tiresias.sandbox.cluster import Cluster

CPUS = 16  # of a node
GRACE_S = 40


def nodes_of(service: Service) -> dict[str, str]:
    """The nodes of the running aggregators."""
    return {each["name"]: each["node"] for each in service.seen("tiresias")["report"]["aggregators"] if each["node"]}


def ask_for(cluster: Cluster, node: str, *options: str) -> str:
    """Submit a job of higher priority that needs the whole node; return its id."""
    command = ["sbatch", "--parsable", "-N1", "-n1", f"-c{CPUS}", "--mem=100", "-w", node, "-o", "/dev/null", *options]
    return cluster.run([*command, "-p", "other", "--wrap", "sleep 2"], user="bob").stdout.strip()


def started_after(cluster: Cluster, job: str, began: float) -> float:
    """Wait until a job runs or has run; return the seconds since `began`."""

    def state() -> str:
        return cluster.run(["scontrol", "show", "job", job]).stdout

    until(lambda: re.search("JobState=(RUNNING|COMPLETING|COMPLETED)", state()) is not None, state)
    return time.monotonic() - began


def training(cluster: Cluster, service: Service, servers: int = 2) -> Callable[[], None]:
    """Start a training job on aggregators; return what waits for its end and compares its weights."""
    service.lead()
    job = submit(cluster, "alice", 1, servers)
    until((cluster.shared / "alice.step").exists, partial(output, cluster, "alice"))
    until(lambda: len(nodes_of(service)) > 0, lambda: service.seen("tiresias"))

    def check() -> None:
        queue = ["squeue", "-h", "-j", job]
        until(lambda: not cluster.run(queue, check=False).stdout.strip(), lambda: output(cluster, "alice"), 150)
        assert "has ended" in output(cluster, "alice"), output(cluster, "alice")
        trained = np.load(cluster.shared / "alice.npz")
        for name, expected in alone(1, STEPS).items():
            np.testing.assert_allclose(trained[name], expected, rtol=0, atol=1e-6 * float(abs(expected).max()))

    return check


@pytest.fixture
def prioritised(cluster: Cluster) -> Iterator[Cluster]:
    """The partition `other` has a higher priority tier."""
    cluster.run(["scontrol", "update", "partitionname=other", "prioritytier=10"])
    yield cluster
    cluster.run(["scontrol", "update", "partitionname=other", "prioritytier=1"])


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_drained_node_is_left(cluster: Cluster, service_of: Callable[..., Service]) -> None:
    service = service_of(4)
    finish = training(cluster, service)
    before = nodes_of(service)
    node = sorted(before.values())[0]
    began = time.monotonic()
    cluster.run(["scontrol", "update", f"nodename={node}", "state=drain", "reason=test"])
    try:
        until(lambda: node not in nodes_of(service).values(), lambda: service.seen("tiresias"))
        print(f"aggregators have left {node} after {time.monotonic() - began:.1f} s")
        finish()
    finally:
        cluster.run(["scontrol", "update", f"nodename={node}", "state=resume"])


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_node_is_given_to_a_job_of_higher_priority(prioritised: Cluster, service_of: Callable[..., Service]) -> None:
    service = service_of(2, cpus=CPUS, watch_s=0.5)
    finish = training(prioritised, service)
    node = sorted(nodes_of(service).values())[0]
    began = time.monotonic()
    job = ask_for(prioritised, node)
    print(f"the job of higher priority ran after {started_after(prioritised, job, began):.1f} s")
    assert len(service.queued()) <= 2
    finish()


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.ci
def test_slurm_preempts_an_aggregator(cluster_of: ClusterOf, service_on: Callable[..., Service]) -> None:
    cluster = cluster_of(settings={"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"})
    cluster.run(["scontrol", "update", "partitionname=gpu", f"gracetime={GRACE_S}"])
    cluster.run(["scontrol", "update", "partitionname=other", "prioritytier=10"])
    service = service_on(cluster, 2, cpus=CPUS, watch_s=0)
    finish = training(cluster, service)
    node = sorted(nodes_of(service).values())[0]
    began = time.monotonic()
    job = ask_for(cluster, node)
    passed = started_after(cluster, job, began)
    print(f"the job that preempts ran after {passed:.1f} s; the grace time is {GRACE_S} s")
    assert passed < GRACE_S, "the aggregator was ended by Slurm"
    finish()


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.long
def test_a_job_without_another_aggregator_is_parked_and_continues(
    prioritised: Cluster, service_of: Callable[..., Service]
) -> None:
    service = service_of(1, cpus=CPUS, watch_s=0.5, drain_s=5.0)
    finish = training(prioritised, service, servers=1)
    (node,) = nodes_of(service).values()
    began = time.monotonic()
    job = ask_for(prioritised, node)
    states = set[str]()

    def parked() -> bool:
        states.update(each["state"] for each in service.seen("alice")["jobs"])
        return "parked" in states

    until(parked, lambda: states)
    print(f"the job of higher priority ran after {started_after(prioritised, job, began):.1f} s; the bound is 5 s")
    assert len(service.queued()) <= 1
    finish()
    assert "is to be parked: no other aggregator can take" in output(prioritised, "alice")
    assert json.loads((prioritised.shared / "service/report/report.json").read_text())["budget"] == 1
