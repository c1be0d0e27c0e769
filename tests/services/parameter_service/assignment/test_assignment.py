"""Assignments of tensors: the toy values of the thesis, and what every sequence of arrivals, ends, reverts and scalings keeps."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.parameter_service.assignment.profiles import PSEUDOCODE, check_loads, job_work, job_works
from tests.shared_data import shared_data
from tiresias.errors import UsageError
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.aggregator_load import AggregatorLoad
from tiresias.services.parameter_service.assignment.aggregator_numbers import moves
from tiresias.services.parameter_service.assignment.aggregator_pool import AggregatorPool
from tiresias.services.parameter_service.assignment.assignment_rules import (
    AssignmentRefused,
    AssignmentRules,
    JobTooLarge,
    NoAggregatorLeft,
)
from tiresias.services.parameter_service.assignment.execution_cycle import loss_in, runs_in, slowed_iteration
from tiresias.services.parameter_service.assignment.job_work import JobWork
from tiresias.services.parameter_service.assignment.late_request import fits_in_cycle
from tiresias.services.parameter_service.assignment.loss_feedback import LossFeedback, LossVerdict
from tiresias.services.parameter_service.assignment.tensor_blocks import blocks_of, work_of_blocks


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shared_data("paper/autops_paper_expected.json").read_text())
    return found


def pool_of(*works: JobWork, rules: AssignmentRules = PSEUDOCODE, most: int = 99) -> AggregatorPool:
    pool = AggregatorPool(rules, most)
    for work in works:
        pool.arrive(work)
    return pool


# the thesis' values


def test_the_toy_example_of_figure_4_6(expected: dict[str, Any]) -> None:
    toy = expected["toy"]
    pool = pool_of(*(job_work(name, toy[name]["D"], toy[name]["e"]) for name in ("J1", "J2")))
    (load,) = pool.loads.values()
    assert load.cycle_s == toy["packed_cycle"]
    assert runs_in(load.cycle_s, toy["J1"]["D"]) == toy["J1_runs_per_cycle"]
    assert (load.work_s, load.cycle_s - load.work_s) == (toy["W"], toy["free"])


def test_the_toy_loss_is_above_the_limit(expected: dict[str, Any]) -> None:
    toy = expected["toy_loss"]
    assert slowed_iteration(toy["cycle"], toy["D"]) == toy["d"]
    assert round(loss_in(toy["cycle"], toy["D"]), 4) == toy["loss"]
    assert toy["rejected_by_LossLimit"] == AssignmentRules().loss_limit
    assert len(pool_of(job_work("a", toy["D"], 1), job_work("b", toy["cycle"], 3)).loads) == 2
    assert (
        len(pool_of(job_work("b", toy["cycle"], 3), job_work("a", toy["D"], 1)).loads) == 2
    )  # the arriving job's own loss


def test_the_free_time_holds_all_runs_of_a_tensor() -> None:
    """Line 17 as printed compares one run: 5 s are free, a tensor of 3 s that runs twice needs 6 s."""
    pool = pool_of(job_work("a", 12, 7), job_work("b", 6, 3))
    assert len(pool.loads) == 2
    check_loads(list(pool.loads.values()), pool.jobs, PSEUDOCODE)


def test_the_case_study_of_figure_4_11(expected: dict[str, Any]) -> None:
    """A second job shares two aggregators, loses 22% of its speed, gets an aggregator of its own, which its end releases."""
    pool = pool_of(job_work("vgg", 12, *[0.2] * 10, servers=2), rules=AssignmentRules())
    assert len(pool.loads) == 2
    pool.arrive(alexnet := job_work("alexnet", 3, *[0.3] * 8, servers=2))
    assert len(pool.loads) == 2
    feedback, study = LossFeedback(alexnet.iteration_s), expected["case_study"]
    slowed_s = alexnet.iteration_s / (1 - study["loss_before_revert"])
    verdicts = [feedback.observe(slowed_s) for _ in range(expected["monitor_iterations"])]
    assert verdicts[-1] is LossVerdict.REVERT
    assert set(verdicts[:-1]) == {LossVerdict.MEASURING}
    assert math.isclose(feedback.loss, study["loss_before_revert"])
    pool.revert("alexnet")
    assert len(pool.loads) == 3
    check_loads(list(pool.loads.values()), pool.jobs, pool.rules)
    (own,) = (load for load in pool.loads.values() if set(load.parts) == {"alexnet"})
    pool.end("alexnet")
    assert own.number in pool.scale()
    assert len(pool.loads) == 2


# limits


def test_the_last_revert_is_a_job_alone() -> None:
    pool = pool_of(job_work("a", 10, *[1.0] * 4, servers=2), job_work("b", 10, *[1.0] * 4, servers=2), most=4)
    pool.revert("b")
    pool.revert("b")
    assert sorted(tuple(load.parts) for load in pool.loads.values()) == [("a",), ("b",), ("b",)]
    before = pool.assignment()
    with pytest.raises(NoAggregatorLeft):
        pool.revert("b")
    assert pool.assignment() == before
    pool.arrive(job_work("c", 10, 1.0))  # not on the aggregators of b
    assert all(set(load.parts) in ({"a", "c"}, {"b"}) for load in pool.loads.values())


def test_a_budget_that_is_used_up_is_not_now_and_a_job_too_large_is_never() -> None:
    pool = pool_of(job_work("a", 10, 8.0), most=1)
    with pytest.raises(NoAggregatorLeft):
        pool.arrive(job_work("b", 10, 8.0))
    with pytest.raises(JobTooLarge):
        pool.arrive(job_work("c", 10, 8.0, 8.0))
    assert list(pool.jobs) == ["a"]
    pool.end("a")
    pool.arrive(job_work("b", 10, 8.0))
    with pytest.raises(NoAggregatorLeft):
        AggregatorPool(PSEUDOCODE, most=0).arrive(job_work("a", 10, 1.0))


def test_a_full_budget_is_packed_anew_before_a_job_is_refused() -> None:
    pool = AggregatorPool(PSEUDOCODE, most=2)
    for name, work_s in (("a", 3.0), ("b", 6.0), ("c", 4.0)):
        pool.arrive(job_work(name, 10, work_s))
    with pytest.raises(NoAggregatorLeft):
        pool.arrive(job_work("d", 10, 7.0), repack=False)
    pool.arrive(job_work("d", 10, 7.0))
    check_loads(list(pool.loads.values()), pool.jobs, PSEUDOCODE)
    assert len(pool.loads) == 2


def test_a_cycle_that_the_end_of_a_job_would_make_too_short_is_kept() -> None:
    load = AggregatorLoad(0)
    for work in (job_work("a", 10, 5.4), job_work("b", 10, 5.4), job_work("c", 10.9, 0.1)):
        load.put(work, "t0")
    load.remove("c")
    assert (load.cycle_s, load.keeps_its_cycle) == (10.9, True)
    load.remove("b")
    assert load.cycle_s == 10


@pytest.mark.parametrize(
    "work",
    [(0.0, 1, {"t": 1.0}), (math.nan, 1, {"t": 1.0}), (1.0, 0, {"t": 1.0}), (1.0, 1, {}), (1.0, 1, {"t": -1.0})],
)
def test_a_profile_that_is_none_is_refused(work: tuple[float, int, dict[str, float]]) -> None:
    with pytest.raises(UsageError):
        JobWork("a", *work)


def test_a_late_request_runs_in_slots_that_are_left() -> None:
    assert fits_in_cycle(cycle_s=12, elapsed_s=6, scheduled_s=4, late_s=2)
    assert not fits_in_cycle(cycle_s=12, elapsed_s=6, scheduled_s=5, late_s=2)


def test_feedback_counts_anew_after_an_assignment() -> None:
    feedback = LossFeedback(1.0, iterations=3)
    assert [feedback.observe(each) for each in (9.0, 9.0)] == [LossVerdict.MEASURING] * 2
    feedback.restart()
    assert [feedback.observe(1.05) for _ in range(3)][-1] is LossVerdict.KEEP


# blocks


@given(
    sizes=st.dictionaries(st.text("abc", min_size=1), st.integers(1, 10**7), min_size=1, max_size=9),
    servers=st.integers(1, 6),
)
def test_blocks_cover_each_tensor_once(sizes: dict[str, int], servers: int) -> None:
    blocks = blocks_of(sizes, servers)
    for name, size in sizes.items():
        own = [each for each in blocks if each.tensor == name]
        assert [each.offset for each in own] == [sum(each.size for each in own[:at]) for at in range(len(own))]
        assert sum(each.size for each in own) == size
    work = work_of_blocks(blocks, {name: float(size) for name, size in sizes.items()})
    assert math.isclose(sum(work.values()), sum(sizes.values()))


def test_a_tensor_with_the_name_of_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="rename"):
        blocks_of({"a": 1000, "a#1": 1}, 4)


# every sequence of events


@given(
    works=st.lists(job_works(), max_size=7),
    data=st.data(),
    most=st.integers(0, 9),
    burst=st.sampled_from([math.inf, 1.25, 1.0]),
)
def test_every_operation_keeps_the_rules(works: list[JobWork], data: st.DataObject, most: int, burst: float) -> None:
    pool = AggregatorPool(AssignmentRules(burst_factor=burst), most)
    for at, work in enumerate(works):
        before = (pool.assignment(), len(pool.loads))
        work = JobWork(f"j{at}", work.iteration_s, work.servers, work.tensors)
        try:
            pool.arrive(work, repack=data.draw(st.booleans()))
        except AssignmentRefused:
            assert (pool.assignment(), len(pool.loads)) == before
        else:
            assert len(pool.loads) <= before[1] + work.servers
        _one_more_event(pool, data)
        assert len(pool.loads) <= most
        check_loads(list(pool.loads.values()), pool.jobs, pool.rules)
    for job in list(pool.jobs):
        pool.end(job)
        check_loads(list(pool.loads.values()), pool.jobs, pool.rules)
    pool.scale()
    assert not pool.loads


def _one_more_event(pool: AggregatorPool, data: st.DataObject) -> None:
    event = data.draw(st.sampled_from(["none", "end", "revert", "scale", "repack"]))
    if event in ("scale", "repack"):
        before = len(pool.loads)
        assert len(pool.scale(repack=event == "repack")) == before - len(pool.loads)
    elif pool.jobs and event != "none":
        job = data.draw(st.sampled_from(sorted(pool.jobs)))
        if event == "end":
            pool.end(job)
        else:
            _revert(pool, job)


def _revert(pool: AggregatorPool, job: str) -> None:
    before = pool.assignment()
    try:
        pool.revert(job)
    except NoAggregatorLeft:
        assert pool.assignment() == before


@given(
    works=st.lists(job_works(), max_size=9),
    budget=st.integers(0, 12),
    size=st.integers(1, 3),
    period=st.sampled_from([0.0, 600.0]),
)
def test_clusters_keep_the_budget(works: list[JobWork], budget: int, size: int, period: float) -> None:
    clusters = AggregatorClusters(AssignmentRules(), budget, size, period)
    for at, work in enumerate(works):
        try:
            clusters.arrive(JobWork(f"j{at}", work.iteration_s, work.servers, work.tensors))
        except AssignmentRefused:
            assert clusters.allocated <= budget
        if at % 3 == 2 and clusters.jobs:
            clusters.end(min(clusters.jobs))
        clusters.scale_if_due(at * 300.0)
        assert clusters.allocated == len(clusters.numbers) <= budget
        assigned = clusters.assignment()
        assert set(assigned.values()) <= clusters.numbers
        assert sorted(assigned) == sorted(
            (job, tensor) for job, each in clusters.jobs.items() for tensor in each.tensors
        )
    for job in list(clusters.jobs):
        clusters.end(job)
    clusters.scale()
    assert clusters.allocated == 0


def test_aggregators_are_released_when_a_period_ends() -> None:
    clusters = AggregatorClusters(AssignmentRules(), budget=9, period_s=600.0)
    clusters.arrive(job_work("a", 10, 1.0, 1.0, servers=2))
    clusters.end("a")
    assert clusters.scale_if_due(599.0) == []
    assert clusters.allocated == 2
    assert len(clusters.scale_if_due(600.0)) == 2
    assert clusters.allocated == 0


def test_moves_are_the_tensors_that_change_their_aggregator() -> None:
    before = {("a", "t"): 1, ("a", "u"): 2, ("b", "t"): 1}
    assert moves(before, {("a", "t"): 1, ("a", "u"): 3, ("c", "t"): 4}) == {("a", "u"): (2, 3)}
