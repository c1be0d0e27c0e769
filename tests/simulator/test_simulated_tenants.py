"""Tenants that share a simulated cluster, under each rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.failures import Exponential
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import FREE, Cost, Rules
from tiresias.simulator.tenant_file import read_tenants
from tiresias.simulator.trace import Trace, TraceJob

CONFIG = replace(PolicyConfig.paper(), thresholds=(40.0,))
CLUSTER = ClusterSize(6, 4, nodes_per_leaf=2)
OWNED = (
    DeclaredTenant("a", (DeclaredCells("leaf", 1),)),
    DeclaredTenant("b", (DeclaredCells("node", 2),), opportunistic=False),
    DeclaredTenant("c", (DeclaredCells("node", 1),)),
)  # a node remains for jobs of no tenant
LARGEST = {"a": 8, "b": 8, "c": 4, "": 4}

Job = tuple[float, int, float, str]


def trace(*jobs: Job) -> Trace:
    """(submit, GPUs, duration, virtual cluster)"""
    return Trace.of(TraceJob(str(row), *job[:3], vc=job[3]) for row, job in enumerate(jobs, start=1))


def outcome(
    rule: str, jobs: Trace, policy: str = "las", cost: Cost = FREE, failures: Exponential | None = None
) -> Outcome:
    tenants = SimulatedTenants(rule, OWNED)
    return simulate(jobs, CLUSTER, Rules(POLICIES[policy], CONFIG, cost, failures=failures, tenants=tenants))


def test_idle_gpus_of_others_are_used_by_the_rule_of_virtual_clusters_alone() -> None:
    jobs = trace((0, 8, 10, "a"), (0, 8, 10, "a"))
    assert outcome("private_clusters", jobs, "fifo").finish.tolist() == [10.0, 20.0]
    assert outcome("virtual_clusters", jobs, "fifo").finish.tolist() == [10.0, 10.0]


def test_an_owner_takes_its_gpus_back() -> None:
    """Four jobs of no tenant run on two nodes that are nobody's or c's; c's job preempts one of them."""
    jobs = trace(*[(0, 4, 100, "")] * 6, (10, 4, 5, "c"))
    done = outcome("virtual_clusters", jobs, "fifo")
    assert done.start[-1] == 10.0
    assert done.preemptions.sum() == 1
    assert outcome("private_clusters", jobs, "fifo").finish[-2] == 600.0  # one after the other on the node of no tenant


def test_a_tenant_that_is_not_opportunistic_remains_in_its_cells() -> None:
    jobs = trace((0, 8, 10, "b"), (0, 8, 10, "b"))
    assert outcome("virtual_clusters", jobs, "fifo").finish.tolist() == [10.0, 20.0]


@pytest.mark.parametrize("rule", TENANT_RULES)
def test_a_job_that_can_never_start_is_named(rule: str) -> None:
    with pytest.raises(UsageError, match="first job 2 of virtual cluster b, which requests 9 GPUs"):
        outcome(rule, trace((0, 1, 5, "a"), (0, 9, 5, "b")))


def lists_of_jobs(sizes: tuple[int, ...]) -> st.SearchStrategy[list[Job]]:
    """Jobs that fit into what their tenant owns."""
    of_tenant = st.sampled_from(["a", "a", "b", "c", ""]).flatmap(
        lambda name: st.tuples(
            st.integers(0, 60).map(float),
            st.sampled_from([gpus for gpus in sizes if gpus <= LARGEST[name]]),
            st.integers(0, 60).map(float),
            st.just(name),
        )
    )
    return st.lists(of_tenant, min_size=1, max_size=25)


workloads = lists_of_jobs((1, 1, 2, 3, 4, 8))
many = settings(max_examples=examples(60), deadline=None)


@many
@given(
    workloads,
    st.sampled_from(list(TENANT_RULES)),
    st.sampled_from(["las", "fifo", "best_effort", "adaptive"]),
    st.sampled_from([Cost(), Cost(pause=3.0), Cost(pause=2.0, resume=4.0)]),
    st.sampled_from([None, Exponential(300.0, 20.0, 1)]),
)
def test_every_job_ends_after_its_work(
    jobs: list[Job], rule: str, policy: str, cost: Cost, failures: Exponential | None
) -> None:
    """No GPU is held twice either: the occupancy checks it."""
    submitted = trace(*jobs)
    done = outcome(rule, submitted, policy, cost, failures)
    assert (done.finish - submitted.submit >= submitted.duration - 1e-6).all()
    used = done.timeline.used
    assert (used >= 0).all()
    assert (used <= CLUSTER.gpus).all()


def test_a_bad_node_is_bound_to_a_cell_that_a_job_loses() -> None:
    """The node of job 5 fails, which then takes the cells of job 4: those cannot be given back after the decision."""
    jobs = trace((0, 2, 28, "b"), (0, 8, 14, "b"), (0, 1, 34, "c"), (21, 4, 21, "a"), (21, 1, 22, "a"))
    done = outcome("virtual_clusters", jobs, failures=Exponential(300.0, 20.0, 1))
    assert np.isfinite(done.finish).all()


@many
@given(workloads, st.sampled_from(["fifo", "best_effort", "las"]))
def test_private_clusters_is_each_tenant_alone(jobs: list[Job], policy: str) -> None:
    """A tenant's jobs end as on a cluster of its size that it has alone."""
    shared = outcome("private_clusters", trace(*jobs), policy)
    finish = dict(zip(trace(*jobs).job_id, shared.finish.tolist(), strict=True))
    for name, gpus in LARGEST.items():
        own = Trace.of(TraceJob(str(row), *job[:3]) for row, job in enumerate(jobs, start=1) if job[3] == name)
        alone = simulate(own, ClusterSize(gpus // 4, 4), Rules(POLICIES[policy], CONFIG, by_node=True))
        assert alone.finish.tolist() == pytest.approx([finish[job] for job in own.job_id])


@many
@given(lists_of_jobs((4, 8)))
def test_virtual_clusters_start_no_job_later_than_private_ones(jobs: list[Job]) -> None:
    """HiveD, section 3: the end of each owner's job is no later, on healthy nodes, with preemption at no cost, FIFO in each tenant
    and jobs of whole nodes. An earlier start of a smaller job may leave gaps in other nodes."""
    submitted = trace(*jobs)
    owned = np.array([name != "" for name in submitted.vc])
    private, virtual = (outcome(rule, submitted, "fifo").finish for rule in ("private_clusters", "virtual_clusters"))
    assert (virtual[owned] <= private[owned] + 1e-6).all()


SOCKETS = ClusterSize(4, 8, sockets_per_node=2)
OF_SOCKETS = (
    DeclaredTenant("a", (DeclaredCells("socket", 3),)),
    DeclaredTenant("b", (DeclaredCells("node", 1), DeclaredCells("socket", 1)), opportunistic=False),
)


@settings(max_examples=examples(30), deadline=None)
@given(lists_of_jobs((1, 1, 2, 3, 4)), st.sampled_from([None, Exponential(300.0, 20.0, 1)]))
def test_jobs_in_sockets_end_after_their_work(jobs: list[Job], failures: Exponential | None) -> None:
    """No GPU of a socket is held twice: the occupancy checks it."""
    submitted = trace(*jobs)
    tenants = SimulatedTenants("virtual_clusters", OF_SOCKETS)
    done = simulate(
        submitted, SOCKETS, Rules(POLICIES["las"], CONFIG, Cost(pause=3.0), failures=failures, tenants=tenants)
    )
    assert (done.finish - submitted.submit >= submitted.duration - 1e-6).all()


def test_three_sockets_are_six_jobs_of_two_gpus() -> None:
    """The jobs of `a` start at once in the sockets that it owns, although others use all nodes."""
    jobs = trace(*[(0, 8, 100, "")] * 4, *[(10, 2, 5, "a")] * 6)
    tenants = SimulatedTenants("virtual_clusters", OF_SOCKETS)
    done = simulate(jobs, SOCKETS, Rules(POLICIES["fifo"], CONFIG, FREE, tenants=tenants))
    assert done.start[4:].tolist() == [10.0] * 6
    assert done.preemptions.sum() == 2, "the three sockets are those of two nodes"


def test_sockets_that_cannot_share_the_gpus() -> None:
    with pytest.raises(UsageError, match="3 sockets cannot share the 8 GPUs of a node"):
        ClusterSize(4, 8, sockets_per_node=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "not TOML"),
        ("x = 1", "has no .*virtual_cluster.* tables"),
        ("", "has no .*virtual_cluster.* tables"),
        ("virtual_cluster = 1", "has no .*virtual_cluster.* tables"),
        ('[[virtual_cluster]]\nname = "a"', "virtual cluster a: it owns no cells"),
        ('[[virtual_cluster]]\nname = "a"\ncells = [{level="node", count=0}]', "count = 0 is not possible"),
    ],
)
def test_a_file_that_is_not_possible_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "vcs.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message) as error:
        read_tenants(file)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)
