"""What `decide` is shown of Slurm's records."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.protocol import control
from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Style
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config, Placement
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.observation.reports import Reports
from tiresias.slurm_plugin.state import avoided_nodes
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
NODES = tuple(
    SlurmNode(
        name=name, state="IDLE", flags=frozenset(), reason="", gpus=4, gpus_allocated=0, gpu_type="", cpus=16,
        cpus_allocated=0, memory=64000, memory_allocated=0, features=(), partitions=("gpu",),
    )
    for name in ("gpu01", "gpu02")
)  # fmt: skip


def attained(ledger: Ledger, time: float, job: SlurmJob) -> float:
    slurm = SlurmSnapshot(time, (job,), NODES)
    return float(Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {}).jobs.attained[0])


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ran=st.floats(0, 5000), saving=st.floats(0, 5))
def test_no_job_gets_service_back_for_being_preempted(
    tmp_path_factory: pytest.TempPathFactory, pending: Make, running: Make, ran: float, saving: float
) -> None:
    """Slurm's times are whole seconds, the controller's are not."""
    journal = Journal(tmp_path_factory.mktemp("state"))
    ledger, end = Ledger(journal, Scope(frozenset({"gpu"}))), int(1000 + ran + saving)
    before = attained(ledger, 1000 + ran, running(1000))
    waiting = pending(restarts=1, submit_time=end, end_time=end)
    ledger_after = attained(ledger, 1001 + ran + saving, replace(waiting, priority=1))
    journal.close()
    assert ledger_after >= before


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.lists(st.tuples(st.integers(3, 500), st.integers(1, 5000)), min_size=2, max_size=6),
    restarted=st.booleans(),
    waits=st.booleans(),
)
def test_attained_service_is_the_sum_of_all_runs(
    tmp_path_factory: pytest.TempPathFactory,
    pending: Make,
    running: Make,
    runs: list[tuple[int, int]],
    restarted: bool,
    waits: bool,
) -> None:
    """runs: seconds in the queue and seconds of the run after them. A preemption ends each but the last."""
    journal = Journal(tmp_path_factory.mktemp("state"))
    scope = Scope(frozenset({"gpu"}))
    ledger, now = Ledger(journal, scope), 1000
    for restart, (queued, ran) in enumerate(runs):
        submit = now
        attained(
            ledger, now, pending(restarts=restart, submit_time=submit, end_time=submit if restart else 0, priority=1)
        )
        start, now = now + queued, now + queued + ran
        attained(ledger, start, running(start, restarts=restart, submit_time=submit))
        last = running(start, restarts=restart, submit_time=submit)
    if waits:
        last = pending(restarts=len(runs), submit_time=now, end_time=now, priority=1)
    found = attained(Ledger(journal, scope) if restarted else ledger, now, last)
    journal.close()
    assert found == last.gpus * sum(ran for _, ran in runs)


def test_a_preemption_does_not_reset_the_minimum_run_time(ledger: Ledger, pending: Make, running: Make) -> None:
    """Job 1 ran 1,000 s, was preempted and has run 10 s since; job 2 has run 120 s. Job 1 is the one in the second queue."""
    for time, old in ((1100, running(1000)), (2001, pending(restarts=1, submit_time=2000, end_time=2000, priority=1))):
        attained(ledger, time, old)
    again = running(2010, restarts=1, submit_time=2000)
    second = running(1900, id="2", raw_id=2, shares=(NodeShare("gpu02", 4, 4, 400),))
    slurm = SlurmSnapshot(2020, (again, second, pending(id="3", priority=1)), NODES)
    snapshot = Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {})
    ready = replace(snapshot, jobs=replace(snapshot.jobs, movable=np.array([True, True, False])))
    plan = decide(ready, PolicyConfig("las", thresholds=(3000.0,), min_run=0.0, min_run_cost_factor=0.0))
    assert [(one.job, one.beneficiary) for one in plan.preemptions] == [("1", "3")]


def excluded(ledger: Ledger, time: float, job: SlurmJob) -> frozenset[str]:
    slurm = SlurmSnapshot(time, (job,), NODES)
    return Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {}).jobs.request[0].closed


def test_nodes_that_failed_a_job_come_last_where_the_others_are_enough(ledger: Ledger, pending: Make) -> None:
    small, large = pending(priority=1), pending(id="2", gpus=8, priority=1)
    for job in (small, large):
        row = ledger.observe(job)
        assert row
        avoided_nodes.note_failed_start(row, ["gpu01"], until=1100)
    assert excluded(ledger, 1050, small) == {"gpu01"}
    assert excluded(ledger, 1050, large) == frozenset()
    assert excluded(ledger, 1100, small) == frozenset()


def test_reserved_nodes_have_no_free_gpus(ledger: Ledger, pending: Make) -> None:
    reserved = replace(NODES[0], flags=frozenset({"RESERVED"}))
    slurm = SlurmSnapshot(1001, (pending(priority=1),), (reserved, NODES[1]))
    found = Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {}).nodes
    assert (found.usable.tolist(), found.free["gpus"].tolist()) == ([False, True], [0, 4])


def test_what_others_keep_waiting_does_not_compete(ledger: Ledger, pending: Make) -> None:
    kept = [
        pending(id="1", reason="JobHeldUser"),
        pending(id="2"),  # an administrator's hold: the controller placed none
        pending(id="3", priority=1, dependency="afterok:1"),
    ]
    slurm = SlurmSnapshot(1001, (*kept, pending(id="4", priority=1)), NODES)
    managed = ledger.apply(slurm)
    observer = Observer(Config(), ledger)
    assert observer.observe(slurm, managed, {}).jobs.id == ("4",)
    assert [job.id for job in observer.waiting(managed, 1001)] == ["4"]


@pytest.mark.parametrize(("restarts", "time", "eligible"), [(0, 1099.5, True), (1, 1100.5, False), (1, 1101.0, True)])
def test_a_requeued_job_rests_before_it_runs_again(
    ledger: Ledger, pending: Make, restarts: int, time: float, eligible: bool
) -> None:
    """Its submit time is when Slurm had cleaned up after the run before."""
    job = pending(restarts=restarts, submit_time=1099, priority=1)
    slurm = SlurmSnapshot(time, (job,), NODES)
    observer, managed = Observer(Config(), ledger), ledger.apply(slurm)
    assert observer.observe(slurm, managed, {}).jobs.eligible.tolist() == [eligible]
    assert observer.next_settled(managed, time) == (float("inf") if eligible else 1101.0)


def test_a_job_that_ends_while_the_controller_acts_is_left_out(ledger: Ledger, pending: Make) -> None:
    """The ledger forgets it between the decision and the end of the cycle."""
    slurm = SlurmSnapshot(1001, (pending(priority=1), pending(id="2", raw_id=2, priority=1)), NODES)
    observer, managed = Observer(Config(), ledger), ledger.apply(slurm)
    observer.observe(slurm, managed, {})
    ledger.forget(ledger.jobs["2"], 1001)
    assert [job.id for job in observer.waiting(managed, 1001)] == ["1"]
    assert observer.next_settled(managed, 1001) == float("inf")


def test_what_a_preemption_costs_is_shown_to_the_policy(ledger: Ledger, running: Make) -> None:
    slurm = SlurmSnapshot(1100, (running(1000), running(1000, id="2", raw_id=2)), NODES)
    managed = ledger.apply(slurm)
    ledger.usage.note(ledger.jobs["2"], 0, restore=20.0, pause=3.5)
    cost = Observer(Config(), ledger).observe(slurm, managed, {}).jobs.preemption_cost
    assert cost is not None
    assert str(cost.tolist()) == "[nan, 23.5]"


@pytest.mark.parametrize(
    ("reported", "progress_from"),
    [
        ({}, 1100.0),  # no first step yet
        ({"ready": True}, 1000.0),  # a program that reports no steps
        ({"ready": True, "ready_at": 1050.0}, 1050.0),
    ],
)
@pytest.mark.parametrize("noted", [False, True])  # the ledger has the report from the cycle after the first read on
def test_progress_counts_from_the_first_step(
    tmp_path: Path, journal: Journal, running: Make, reported: dict[str, object], progress_from: float, noted: bool
) -> None:
    ledger, uid = Ledger(journal, Scope(frozenset({"gpu"}))), os.getuid()
    slurm = SlurmSnapshot(1100.0, (running(1000, uid=uid),), NODES)
    folder = control.job_folder(tmp_path, uid, "1")
    folder.mkdir(parents=True)
    control.write(folder, control.SUPERVISOR, {"restart": 0, "state": "running", "began": 1000.0})
    control.write(folder, control.PROGRAM, {"restart": 0, **reported})
    managed = ledger.apply(slurm)
    if noted:
        ledger.usage.note(ledger.jobs["1"], 0, restore=control.report(tmp_path, uid, "1").restore)
    config = replace(Config(), paths=replace(Config().paths, control=tmp_path))
    seen = Observer(config, ledger).observe(slurm, managed, {}).jobs.progress_from
    assert seen is not None
    assert seen.tolist() == [progress_from]


@pytest.mark.parametrize(
    ("decision", "unknown", "style", "packed_until"),
    [
        ("consolidate", "spread", Style.CONSOLIDATE, 1300.0),
        ("spread", "consolidate", Style.SPREAD, -math.inf),
        ("unknown", "consolidate", Style.CONSOLIDATE, -math.inf),
        ("unknown", "spread", Style.SPREAD, -math.inf),
        (None, "spread", Style.SPREAD, -math.inf),
    ],
)
def test_the_known_traffic_determines_the_placement_style(
    ledger: Ledger, pending: Make, decision: str | None, unknown: str, style: Style, packed_until: float
) -> None:
    slurm = SlurmSnapshot(1001, (pending(priority=1),), NODES)
    known = {"1": Summary(decision)} if decision else {}
    observer = Observer(Config(placement=Placement(unknown=unknown, patience=300.0)), ledger)
    jobs = observer.observe(slurm, ledger.apply(slurm), {}, known).jobs
    assert jobs.style is not None
    assert jobs.packed_until is not None
    assert (jobs.style.tolist(), jobs.packed_until.tolist()) == ([style], [packed_until])


def test_the_wait_limit_of_a_preempted_job_begins_again(ledger: Ledger, pending: Make) -> None:
    slurm = SlurmSnapshot(1001, (pending(priority=1),), NODES)
    managed = ledger.apply(slurm)
    ledger.jobs["1"].last_preempted = 5000.0
    jobs = Observer(Config(), ledger).observe(slurm, managed, {}, {"1": Summary("consolidate")}).jobs
    assert jobs.packed_until is not None
    assert jobs.packed_until.tolist() == [5300.0]


def test_the_first_job_of_a_kind_makes_its_trial_run_on_two_nodes(ledger: Ledger, pending: Make, running: Make) -> None:
    """One of those that wait; not when one has run, nor when it is known, nor of a job that tsbatch did not submit."""
    script = "0123456789abcdef"
    waiting = [pending(id=str(number), priority=1, script=script, name="train") for number in (1, 2)]
    others = [pending(id="3", priority=1), pending(id="4", priority=1, script=script, name="known")]

    def styles(*jobs: SlurmJob, config: Config) -> list[int]:
        slurm = SlurmSnapshot(1001, jobs, NODES)
        found = Observer(config, ledger).observe(slurm, ledger.apply(slurm), {}, {"4": Summary("spread", skew=0.1)})
        assert found.jobs.style is not None
        return list(found.jobs.style)

    apart, few, spread = Style.APART, Style.CONSOLIDATE, Style.SPREAD
    assert styles(*waiting, *others, config=Config()) == [apart, few, few, spread]
    assert styles(*waiting, config=Config(placement=Placement(trial="anywhere"))) == [few, few]
    ran = running(1000, id="1", script=script, name="train")
    assert styles(ran, waiting[1], config=Config()) == [few, few]


@pytest.mark.parametrize(("start", "accepted"), [(1000, True), (1001, True), (993, False), (0, True)])
def test_a_report_of_an_older_job_with_the_same_id_is_not_accepted(
    tmp_path: Path, running: Make, start: int, accepted: bool
) -> None:
    """0: a Slurm version that does not pass the start time to jobs."""
    folder = control.job_folder(tmp_path, os.getuid(), "1")
    folder.mkdir(parents=True)
    control.write(folder, control.SUPERVISOR, {"restart": 0, "state": "running", "start": start})
    control.write(folder, control.PROGRAM, {"restart": 0, "ready": True})
    assert Reports(tmp_path).fresh(running(1000, uid=os.getuid())).ready == accepted


def test_a_clock_that_was_set_back_keeps_no_job_waiting(ledger: Ledger, pending: Make) -> None:
    """Neither for the clean-up of a run that ended an hour ahead, nor for the moment of the submission; a --begin stays one."""
    jobs = [
        pending(id="1", priority=1, restarts=1, submit_time=4600, begin_time=4721),
        pending(id="2", priority=1, submit_time=4600, begin_time=4600),
        pending(id="3", priority=1, submit_time=4600, begin_time=4700),
    ]
    slurm = SlurmSnapshot(1001, tuple(jobs), NODES)
    shown = Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {}).jobs
    assert shown.eligible.tolist() == [True, True, False]


def test_a_begin_time_that_the_owner_sets_counts_after_a_requeue_too(ledger: Ledger, pending: Make) -> None:
    """Slurm's own wait after a requeue does not."""
    jobs = [
        pending(id="1", restarts=1, submit_time=900, begin_time=1021),
        pending(id="2", restarts=1, submit_time=900, begin_time=900 + 7200),
        pending(id="3", submit_time=900, begin_time=900 + 7200),
    ]
    slurm = SlurmSnapshot(1001, tuple(jobs), NODES)
    for row in ledger.apply(slurm):
        ledger.jobs[row.id].held = True
    shown = Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {}).jobs
    assert shown.eligible.tolist() == [True, False, False]
    assert shown.obstacle is not None
    assert [one.partition(",")[0] for one in shown.obstacle] == ["", "BeginTime", "BeginTime"]


@pytest.mark.parametrize(
    ("changes", "gpus", "nodes"),
    [
        ({"gpus": 2}, 4, 1),
        ({"gpus": 5}, 8, 2),
        ({"gpus": 2, "min_nodes": 2}, 8, 2),
        ({"gpus": 5, "max_nodes": 1}, 5, None),  # impossible: Slurm's own answer
        ({"gpus": 2, "exclusive": False}, 2, None),
    ],
)
def test_a_waiting_job_of_whole_nodes_requests_all_their_gpus(
    ledger: Ledger, pending: Make, changes: dict[str, int], gpus: int, nodes: int | None
) -> None:
    job = pending(**({"exclusive": True, "priority": 1, "cpus": 2, "memory_per_cpu": 100} | changes))
    slurm, observer = SlurmSnapshot(1001, (job,), NODES), Observer(Config(), ledger)
    shown = observer.observe(slurm, ledger.apply(slurm), {}).jobs
    (request,) = shown.request or ()
    assert shown.gpus.tolist() == [gpus]
    if nodes:
        assert (request.min_nodes, request.max_nodes, request.gpus_per_node) == (nodes, nodes, 4)
        assert request.cpus_per_gpu * gpus == pytest.approx(2)
        assert request.memory_per_gpu * gpus == pytest.approx(200)
        again = observer.observe(slurm, ledger.apply(slurm), {}).jobs
        assert again.request is not None
        assert again.request[0] is request
    other = SlurmSnapshot(1001, (job,), (NODES[0], replace(NODES[1], gpus=8)))
    unequal = Observer(Config(), ledger).observe(other, ledger.apply(other), {}).jobs
    assert unequal.gpus.tolist() == [changes["gpus"]]


def test_a_job_of_whole_nodes_starts_where_no_other_job_is(ledger: Ledger, pending: Make, running: Make) -> None:
    """Slurm starts it nowhere else; a job of as few GPUs would fill a node in use."""
    jobs = running(1000, id="1", gpus=1), pending(id="2", gpus=1, priority=1, exclusive=True)
    nodes = (replace(NODES[0], gpus_allocated=1, cpus_allocated=4, memory_allocated=400), NODES[1])
    slurm = SlurmSnapshot(1001, jobs, nodes)
    snapshot = Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {})
    (start,) = decide(snapshot, PolicyConfig()).starts
    assert (start.job, start.nodes) == ("2", (("gpu02", 4),))


def test_a_job_starts_on_nodes_of_its_partitions_only(journal: Journal, pending: Make) -> None:
    """Two managed partitions with one policy, and a node each."""
    config = replace(Config(), partitions=("gpu", "large"))
    nodes = (NODES[0], replace(NODES[1], partitions=("large",)))
    names = {"1": "large", "2": "large", "3": "gpu", "4": "gpu,large"}
    jobs = tuple(
        pending(id=name, raw_id=int(name), partition=partition, gpus=2, priority=1, submit_time=1000 + int(name))
        for name, partition in names.items()
    )
    ledger, slurm = Ledger(journal, Scope(frozenset(config.partitions))), SlurmSnapshot(2000.0, jobs, nodes)
    plan = decide(Observer(config, ledger).observe(slurm, ledger.apply(slurm), {}), config.policy)
    assert {start.job: start.nodes for start in plan.starts} == {
        "1": (("gpu02", 2),),
        "2": (("gpu02", 2),),
        "3": (("gpu01", 2),),
        "4": (("gpu01", 2),),
    }
