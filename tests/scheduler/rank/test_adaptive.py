"""The policy `adaptive`: ranks by hand, and the same outcome whichever way it is computed."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide, reason
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.forecast.forecast_words import forecast_in_words
from tiresias.scheduler.forecast.start_forecast import start_forecast
from tiresias.scheduler.model import JobState
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.rank.adaptive import Adaptive
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.rank.policy import Policy, Row
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.job_columns import JobColumns
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob

ADAPTIVE = POLICIES["adaptive"]
NO_JOBS = JobColumns()
NO_JOBS.now = 0.0
CONFIG = replace(PolicyConfig.paper("adaptive"), preemption_cost=60.0)


def ranked(snapshot: Any, config: Any = CONFIG, policy: Policy = ADAPTIVE) -> list[str]:
    return [snapshot.jobs.id[row] for row in policy.rank(snapshot, config).order]


def test_nothing_known_the_shortest_run_and_smallest_first(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    jobs = [job("1", 1, ran=7000.0, preempted=9.0), job("2", 1, ran=100.0, preempted=8.0), job("3", 8), job("4", 1)]
    assert ranked(snapshot_of(jobs, [node()])) == ["4", "2", "3", "1"]


def test_a_job_that_costs_more_to_start_waits_longer(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    jobs = [job("1", ran=50.0, preempted=9.0), job("2", ran=60.0, preempted=8.0), job("3", ran=60.0, preempted=7.0)]
    snapshot = snapshot_of(jobs, [node()])
    assert ranked(snapshot) == ["1", "2", "3"]
    measured = replace(snapshot, jobs=replace(snapshot.jobs, preemption_cost=np.array([500.0, math.nan, 5.0])))
    assert ranked(measured) == ["3", "2", "1"]
    assert isinstance(ADAPTIVE, Adaptive)
    first, second, third = (ADAPTIVE.keys(Row(measured.jobs, row), 0.0, CONFIG, False)[1] for row in range(3))
    together = ADAPTIVE.keys(measured.jobs, 0.0, CONFIG, np.zeros(3, bool))[1]
    assert together.tolist() == [first, second, third]


def test_what_is_learned_turns_the_order(snapshot_of: Any) -> None:
    """All jobs of the past took an hour: the job that ran for longest is nearest to its end."""
    job, node = snapshot_of.Job, snapshot_of.Node
    snapshot = snapshot_of([job("1", ran=3000.0, preempted=9.0), job("2", ran=30.0, preempted=8.0)], [node()])
    assert ranked(snapshot) == ["2", "1"]
    learned = ADAPTIVE.fitted(hour_jobs(500), snapshot_of([], [node()]).jobs)
    assert ranked(snapshot, policy=learned) == ["1", "2"]


def hour_jobs(count: int) -> Completed:
    nothing = ("",) * count
    services = np.full(count, 2 * 3600.0)
    return Completed(np.full(count, 2), services, np.zeros(count), nothing, nothing, nothing)


def test_where_jobs_are_large_the_order_is_more_by_time(snapshot_of: Any) -> None:
    """A job of 48 of 64 GPUs that ran for a minute, and one of 1 GPU that ran for longer: the first one ends sooner."""
    job, node = snapshot_of.Job, snapshot_of.Node
    waiting = [job("1", 48, ran=60.0, preempted=9.0), job("2", 1, ran=1000.0, preempted=8.0)]
    snapshot = snapshot_of(waiting, [node(64)])
    busy = snapshot_of([job("9", 64, JobState.RUNNING, ran=60.0, last_start=0.0)], [node(64)]).jobs
    assert ranked(snapshot, policy=ADAPTIVE.fitted(pareto_jobs(1000, 4), busy, 64)) == ["2", "1"]
    assert ranked(snapshot, policy=ADAPTIVE.fitted(pareto_jobs(1000, 48), busy, 64)) == ["1", "2"]
    assert ranked(snapshot, policy=ADAPTIVE.fitted(pareto_jobs(10, 48), busy, 64)) == ["2", "1"]  # too few are known


def test_words_name_the_gpus_that_count(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    there = snapshot_of([job("1", 48, ran=60.0, preempted=9.0)], [node(64)]).jobs
    policy = ADAPTIVE.fitted(pareto_jobs(900, 48), there, 64)
    mean = (450 * 49 + 48) / 901
    counted = 48 - 0.85 * 0.9 * (48 - mean)
    assert f", where its 48 GPUs count as {counted:.1f}" in policy.standing(Row(there, 0), 0, 0.0, CONFIG)
    assert "count as" not in ADAPTIVE.fitted(pareto_jobs(900, 8), there, 64).standing(Row(there, 0), 0, 0.0, CONFIG)


def pareto_jobs(count: int, most: int) -> Completed:
    """As many jobs of 1 GPU as of `most`, both with a Pareto distribution of shape 1: the rank follows from the age."""
    gpus, nothing = np.resize([1, most], count), ("",) * count
    ages = 30.0 / (1.0 - (np.arange(count) // 2 + 0.5) / (count / 2))
    return Completed(gpus, gpus * ages, np.zeros(count), nothing, nothing, nothing)


def test_it_learns_ever_less_often() -> None:
    policy: Policy = Adaptive()
    fits = []
    while policy.refit_at < 100:
        fits.append(policy.refit_at)
        policy = policy.fitted(hour_jobs(int(policy.refit_at)), NO_JOBS)
    assert fits[:5] == [1, 2, 3, 4, 5]
    assert all(after >= 1.1 * before for before, after in pairwise(fits[10:]))


def test_jobs_that_are_there_count_too(snapshot_of: Any) -> None:
    """No job ended yet, but many ran for an hour: a job that seems short may well be long."""
    job, node = snapshot_of.Job, snapshot_of.Node
    jobs = [job(str(n), 1, JobState.RUNNING, ran=3600.0, last_start=0.0) for n in range(8)]
    there = snapshot_of(jobs, [node(8)]).jobs
    short, long = job("8", ran=2000.0, preempted=9.0), job("9", ran=5000.0, preempted=8.0)
    snapshot = snapshot_of([short, long], [node()])
    assert ranked(snapshot) == ["8", "9"]
    assert ranked(snapshot, policy=ADAPTIVE.fitted(hour_jobs(0), there)) == ["9", "8"]


def test_a_running_job_is_preempted_where_the_wait_was_longer_than_its_preemption_costs(snapshot_of: Any) -> None:
    """60 s for the job of 4 GPUs itself, and 2 x 60 s x 4 / 4 for each waiting job: 180 s if one waits, 300 s if two do."""
    job, node = snapshot_of.Job, snapshot_of.Node
    runs = job("1", 4, JobState.RUNNING, attained=40_000, ran=10_000, submit=-10_000, last_start=-10_000)
    for waits, preempted in (((821,), ()), ((820,), ("1",)), ((820, 900), ()), ((800, 900), ("1",))):
        jobs = [runs, *(job(str(2 + row), 2, submit=submit) for row, submit in enumerate(waits))]
        plan = decide(snapshot_of(jobs, [node()]), CONFIG)
        assert tuple(each.job for each in plan.preemptions) == preempted
    for submit, review in ((950, 1010.0), (900, 1140.0), (760, 1720.0)):  # after 60, 240, 960 s
        assert next_change(snapshot_of([runs, job("2", 4, submit=submit)], [node()]), CONFIG) == review


def test_a_measured_cost_counts_for_the_job_that_would_be_preempted(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    runs = job("1", 4, JobState.RUNNING, attained=40_000, ran=10_000, submit=-10_000, last_start=-10_000)
    snapshot = snapshot_of([runs, job("2", 4, submit=820)], [node()])
    for measured, preempted in ((60.0, 1), (61.0, 0), (5.0, 1), (math.nan, 1)):
        costs = replace(snapshot.jobs, preemption_cost=np.array([measured, math.nan]))
        assert len(decide(replace(snapshot, jobs=costs), CONFIG).preemptions) == preempted


def test_it_learns_how_soon_gpus_are_released(snapshot_of: Any) -> None:
    """All jobs of the past took an hour, so the GPUs of a job of 1,000 s are released later than those of a job of 3,500 s."""
    job, node = snapshot_of.Job, snapshot_of.Node
    rates = []
    for ran in (1000.0, 3500.0):
        runs = job("1", 4, JobState.RUNNING, ran=ran, last_start=1000.0 - ran)
        rates.append(ADAPTIVE.fitted(hour_jobs(50), snapshot_of([runs], [node()]).jobs).release_rate)
    assert ADAPTIVE.release_rate == math.inf  # nothing is known: what jobs have waited alone counts
    assert 0 < rates[0] < 4 / 3600 < rates[1]
    assert ADAPTIVE.fitted(hour_jobs(50), NO_JOBS).release_rate == 0


def test_a_job_that_waited_too_long_goes_first_until_it_has_run_as_long(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    config = replace(CONFIG, starve_limit=500.0, starve_factor=math.inf)
    late = job("1", 4, waited=600.0, ran=400.0, submit=0, preempted=900.0)
    others = [job("2", 1, waited=100.0, submit=900), job("3", 1, waited=0.0, submit=1000)]
    assert ranked(snapshot_of([*others, late], [node()]))[0] == "2"
    assert ranked(snapshot_of([*others, late], [node()]), config) == ["1", "2", "3"]
    runs = replace(late, state=JobState.RUNNING, last_start=990.0)
    assert ranked(snapshot_of([*others, runs], [node()]), config) == ["1", "2", "3"]
    assert next_change(snapshot_of([*others, runs], [node()]), config) <= 1100.0, "it has run for 500 s then"
    assert ranked(snapshot_of([*others, replace(runs, ran=500.0)], [node()]), config)[0] == "2"
    assert ranked(snapshot_of([*others, replace(late, ran=500.0)], [node()]), config)[0] == "2"
    assert ranked(snapshot_of([*others, replace(late, ran=500.0, waited=1000.0)], [node()]), config)[0] == "1"
    assert next_change(snapshot_of(others[:1], [node()]), config) == 1140.0  # first its wait is weighed again
    assert next_change(snapshot_of([job("2", waited=450.0, submit=600)], [node()]), config) == pytest.approx(1050.0)


def test_each_starve_limit_of_waiting_halves_the_cost_by_which_a_job_is_ranked(snapshot_of: Any) -> None:
    """A job of 4 GPUs is ranked as one of 2, then as one of 1, and so on; once it runs, as before step by step."""
    job, node = snapshot_of.Job, snapshot_of.Node
    config = replace(CONFIG, starve_limit=500.0)
    new = [job(f"{gpus}", gpus, submit=1000) for gpus in (1, 2, 3)]

    def place(waited: float, ran: float = 0.0) -> int:
        late = job("late", 4, waited=waited, ran=ran, submit=1000.0 - waited - ran)
        return ranked(snapshot_of([*new, late], [node()]), config).index("late")

    assert [place(waited) for waited in (499.0, 500.0, 999.0, 1000.0, 1500.0)] == [3, 1, 1, 0, 0]
    runs = job("runs", 4, JobState.RUNNING, waited=1000.0, ran=400.0, submit=-400, last_start=600.0)
    assert next_change(snapshot_of([*new, runs], [node()]), config) <= 1100.0, "it has run for 500 s then"
    costs = [
        ADAPTIVE.keys(snapshot_of([replace(runs, ran=ran)], [node()]).jobs, 1000.0, config, False)[1]  # type: ignore[attr-defined]
        / ADAPTIVE.keys(snapshot_of([replace(runs, ran=ran)], [node()]).jobs, 1000.0, CONFIG, False)[1]  # type: ignore[attr-defined]
        for ran in (0.0, 499.0, 500.0, 1000.0, 9000.0)
    ]
    assert [float(cost[0]) for cost in costs] == [0.25, 0.25, 0.5, 1.0, 1.0]


@pytest.mark.parametrize("factor", [1.5, 2.0, 10.0])
def test_however_costly_a_job_is_it_is_first_after_a_finite_wait(snapshot_of: Any, factor: float) -> None:
    """After n times of starve_limit it is before each new job whose completion costs 1 / factor^n as much."""
    job, node = snapshot_of.Job, snapshot_of.Node
    config = replace(CONFIG, starve_limit=500.0, starve_factor=factor)
    times = math.ceil(math.log(1000.0, factor))
    new, late = job("new", 1, submit=1000), job("late", 1000, submit=0)
    for waited, order in ((500.0 * times, ["late", "new"]), (500.0 * times - 501.0, ["new", "late"])):
        assert ranked(snapshot_of([new, replace(late, waited=waited)], [node()]), config) == order


def test_jobs_that_have_starved_for_equally_long_are_ordered_by_their_costs(snapshot_of: Any) -> None:
    """An overloaded cluster does not serve them first come, first served."""
    job, node = snapshot_of.Job, snapshot_of.Node
    jobs = [job(f"{gpus}", gpus, waited=1000.0 - row, submit=float(row)) for row, gpus in enumerate((8, 4, 2, 1))]
    config = replace(CONFIG, starve_limit=900.0)
    assert ranked(snapshot_of(jobs, [node()]), config) == ["1", "2", "4", "8"]
    assert ranked(snapshot_of(jobs, [node()]), replace(config, starve_factor=math.inf)) == ["8", "4", "2", "1"]


def test_long_jobs_that_starve_do_not_take_all_gpus_from_short_ones(snapshot_of: Any) -> None:
    """Each of them has waited for days and run for longer: the short job that has just come goes before all."""
    job, node = snapshot_of.Job, snapshot_of.Node
    config = replace(CONFIG, starve_limit=500.0)
    long = [job(f"{row}", 4, waited=5_000.0, ran=6_000.0, submit=-10_000 + row) for row in range(20)]
    assert ranked(snapshot_of([*long, job("short", 1, submit=1000)], [node()]), config)[0] == "short"


def test_with_a_target_slowdown_jobs_are_ranked_by_the_moment_at_which_they_are_due(snapshot_of: Any) -> None:
    """A large job is overtaken by small ones that are submitted soon after it, and not by later ones."""
    job, node = snapshot_of.Job, snapshot_of.Node
    jobs = [job("1", 8, submit=0), job("2", 1, submit=100), job("3", 1, submit=900)]
    snapshot = snapshot_of(jobs, [node()])
    assert ranked(snapshot) == ["2", "3", "1"]
    costs = ADAPTIVE.keys(snapshot.jobs, 1000.0, CONFIG, False)[1]  # type: ignore[attr-defined]
    between = 500.0 / float(costs[0] - costs[1])
    for factor, order in ((0.1, ["1", "2", "3"]), (1.0, ["2", "1", "3"]), (2.0, ["2", "3", "1"])):
        assert ranked(snapshot, replace(CONFIG, target_slowdown=factor * between)) == order


def test_the_expected_time_to_completion_is_that_on_the_mean_number_of_gpus(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    jobs = snapshot_of([job("1", 4, submit=700)], [node()]).jobs
    learned = ADAPTIVE.fitted(hour_jobs(3), jobs)
    assert isinstance(learned, Adaptive)
    cost = learned.keys(Row(jobs, 0), 1000.0, CONFIG, False)[1]
    due = learned.keys(Row(jobs, 0), 1000.0, replace(CONFIG, target_slowdown=10.0), False)[1]
    assert due == pytest.approx(700.0 + 10.0 * cost / 2.5), "three jobs of 2 GPUs ended and one of 4 is there"


def test_a_starving_job_goes_before_all_that_are_due(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    config = replace(CONFIG, starve_limit=500.0, target_slowdown=3.0, starve_factor=math.inf)
    due = job("1", 1, waited=450.0, submit=-90_000, ran=10.0, preempted=550.0)
    late = job("2", 8, waited=501.0, submit=499)
    snapshot = snapshot_of([due, late], [node(), node()])
    assert ranked(snapshot, replace(config, starve_limit=math.inf)) == ["1", "2"]
    assert ranked(snapshot, replace(config, starve_factor=2.0)) == ["1", "2"], "each job is due anyway"
    assert ranked(snapshot, config) == ["2", "1"]


def test_a_starving_job_preempts_jobs_of_more_gpus(snapshot_of: Any) -> None:
    """However little that is worth: other jobs have waited for less time than the preemption costs."""
    job, node = snapshot_of.Job, snapshot_of.Node
    runs = job("1", 4, JobState.RUNNING, attained=40_000, ran=10_000, waited=0.0, submit=-9000, last_start=-9000)
    snapshot = snapshot_of([runs, job("2", 1, waited=600.0, submit=900)], [node()])
    assert not decide(snapshot, CONFIG).preemptions
    plan = decide(snapshot, replace(CONFIG, starve_limit=500.0))
    assert [(each.job, each.beneficiary) for each in plan.preemptions] == [("1", "2")]


@pytest.mark.parametrize(("waited", "kept"), [(600.0, True), (900.0, False), (1050.0, True), (499.0, False)])
def test_gpus_are_kept_free_for_a_starving_job_that_does_not_fit(snapshot_of: Any, waited: Any, kept: Any) -> None:
    """The job that runs started just now; a small one has just come. Kept free for 300 s, and again after each further 500 s."""
    job, node = snapshot_of.Job, snapshot_of.Node
    config = replace(CONFIG, starve_limit=500.0, starve_factor=math.inf, drain_limit=300.0, min_run=60.0)
    runs = job("1", 3, JobState.RUNNING, ran=5.0, submit=980, last_start=995.0)
    large = job("2", 4, waited=waited, submit=1000.0 - waited)
    snapshot = snapshot_of([runs, large, job("3", 1, waited=1.0, submit=999)], [node()])
    plan = decide(snapshot, config)
    assert [each.job for each in plan.starts] == ([] if kept else ["3"])
    assert ("kept free for it" in reason(plan, snapshot, 1)) == kept
    words = forecast_in_words(start_forecast(snapshot, plan, config, 1).steps[-1].what)
    assert words.startswith(
        "GPUs are no longer" if kept else "GPUs are kept free" if waited > 500 else "it goes before"
    )


@pytest.mark.parametrize(("factor", "then"), [(math.inf, "goes before all others"), (2.0, "ranks higher")])
def test_the_forecast_of_a_waiting_job(snapshot_of: Any, factor: float, then: str) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    config = replace(CONFIG, starve_limit=500.0, starve_factor=factor)
    runs = job("1", 4, JobState.RUNNING, ran=900.0, last_start=100.0)
    snapshot = snapshot_of([runs, job("2", 4, waited=40.0, submit=960)], [node()])
    forecast = start_forecast(snapshot, decide(snapshot, config), config, 1)
    assert [(step.at, forecast_in_words(step.what)) for step in forecast.steps] == [
        (1020.0, "lower-ranked running jobs may be preempted for it (policy.preemption_cost)")
    ]
    bound = forecast_in_words(forecast.bound.why)
    assert bound.endswith(f"as long as they need; it {then} in 8 minutes (policy.starve_limit)")
    later = snapshot_of([runs, job("2", 4, waited=490.0, submit=510)], [node()])
    steps = start_forecast(later, decide(later, config), config, 1).steps
    assert [(step.at, forecast_in_words(step.what)) for step in steps] == [(1010.0, f"it {then} (policy.starve_limit)")]


def test_a_job_without_lower_ranked_running_jobs_has_no_forecast_of_preemptions(snapshot_of: Any) -> None:
    """The job that runs cannot be preempted."""
    job, node = snapshot_of.Job, snapshot_of.Node
    config = replace(CONFIG, starve_limit=500.0, starve_factor=2.0)
    runs = job("1", 4, JobState.RUNNING, ran=900.0, last_start=100.0, movable=False)
    for waited, words in ((40.0, []), (490.0, ["it ranks higher (policy.starve_limit)"])):
        snapshot = snapshot_of([runs, job("2", 4, waited=waited, submit=1000.0 - waited)], [node()])
        steps = start_forecast(snapshot, decide(snapshot, config), config, 1).steps
        assert [forecast_in_words(step.what) for step in steps] == words


def test_next_change_is_the_next_bucket_where_a_job_waits(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    runs = job("1", 4, JobState.RUNNING, ran=900.0, last_start=100.0)
    waits = job("2", 4, submit=0)
    assert next_change(snapshot_of([runs], [node()]), CONFIG) == math.inf
    assert next_change(snapshot_of([runs, waits], [node()]), CONFIG) == pytest.approx(1000.0 + 1024.0 - 900.0)
    longer = replace(CONFIG, min_run=950.0)
    assert next_change(snapshot_of([runs, waits], [node()]), longer) == 1050.0


def test_reasons_contain_the_run_time_and_its_meaning(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    stays = job("1", 4, JobState.RUNNING, ran=900.0, last_start=100.0, movable=False)
    runs = job("2", 4, JobState.RUNNING, ran=900.0, last_start=100.0)
    snapshot = snapshot_of([stays, runs, job("3", 8, waited=700.0, submit=300)], [node(), node()])
    plan = decide(snapshot, CONFIG)
    assert "run time 900 s, after which a completion costs" in reason(plan, snapshot, 1)
    assert "run time 0 s" in reason(plan, snapshot, 2)
    config = replace(CONFIG, starve_limit=600.0)
    assert "counted 1/2 after 700 s of waiting (policy.starve_limit)" in reason(decide(snapshot, config), snapshot, 2)
    plan = decide(snapshot, replace(config, starve_factor=math.inf))
    assert "waited for 700 s, longer than policy.starve_limit, place 1" in reason(plan, snapshot, 2)


# The simulator's two ways of computing it, and its rows in another order.

some_jobs = st.lists(
    st.tuples(st.integers(0, 900).map(float), st.sampled_from([1, 1, 2, 4, 6]), st.integers(0, 900).map(float)),
    min_size=1,
    max_size=25,
).map(sorted)
configs = st.builds(
    PolicyConfig,
    name=st.just("adaptive"),
    preemption_cost=st.sampled_from([0.0, 7.0, 60.0]),
    starve_limit=st.sampled_from([math.inf, 300.0]),
    starve_factor=st.sampled_from([1.5, 2.0, math.inf]),
    min_run=st.sampled_from([0.0, 30.0]),
    target_slowdown=st.sampled_from([math.inf, 10.0, 0.5]),
)
resumes = st.sampled_from([0.0, 7.0])
many = settings(max_examples=examples(60), deadline=None)
few = settings(max_examples=examples(20), deadline=None)  # simulated node by node


def trace(jobs: list[tuple[float, int, float]]) -> Trace:
    return Trace.of(TraceJob(str(row), *job) for row, job in enumerate(jobs, start=1))


def results(jobs: Any, cluster: ClusterSize, rules: Rules) -> list[tuple[float, float, int]]:
    outcome = simulate(trace(jobs), cluster, rules)
    return list(zip(*(each.tolist() for each in (outcome.start, outcome.finish, outcome.preemptions)), strict=True))


@few
@given(some_jobs, configs, resumes)
def test_node_by_node_is_as_in_one_pool(jobs: Any, config: Any, resume: Any) -> None:
    cluster, rules = ClusterSize(2, 3), Rules(ADAPTIVE, config, Cost(resume=resume))
    assert results(jobs, cluster, replace(rules, by_node=True)) == results(jobs, cluster, rules)


@few
@given(some_jobs, configs, st.sampled_from([3.0, 40.0]))
def test_node_by_node_is_as_in_one_pool_when_leaving_takes_time(jobs: Any, config: Any, pause: Any) -> None:
    """On one node: on several a reservation keeps what a pool gives away."""
    cluster, rules = ClusterSize(1, 6), Rules(ADAPTIVE, config, Cost(pause=pause))
    assert results(jobs, cluster, replace(rules, by_node=True)) == results(jobs, cluster, rules)


@many
@given(some_jobs, configs, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(jobs: Any, config: Any, random: Any) -> None:
    """Jobs of the same submit time are ordered by their rows, so here no two have the same."""
    jobs = [(submit + 1000.0 * row, *rest) for row, (submit, *rest) in enumerate(jobs)]
    shuffled = random.sample(jobs, len(jobs))
    rules = Rules(ADAPTIVE, config)
    assert results(shuffled, ClusterSize(2, 3), rules) == results(jobs, ClusterSize(2, 3), rules)


def test_a_claim_replaces_the_age(snapshot_of: Any) -> None:
    """Remaining seconds, with the cost of a start, of waiting jobs; a running job is held; trust weighs claim and age."""
    assert isinstance(ADAPTIVE, Adaptive)
    policy, job, node = ADAPTIVE, snapshot_of.Job, snapshot_of.Node
    running = {"state": JobState.RUNNING, "last_start": 0.0}
    jobs = [job("1", ran=7000.0), job("2", ran=100.0), job("3", ran=7000.0, **running), job("4", ran=100.0)]
    snapshot = snapshot_of(jobs, [node()])
    ages = policy.keys(snapshot.jobs, 9.0, CONFIG, np.zeros(4, bool))[1]

    def claims(left: list[float], trust: list[float]) -> Any:
        claimed = replace(snapshot.jobs, claimed_remaining=np.array(left), claim_trust=np.array(trust))
        together = policy.keys(claimed, 9.0, CONFIG, np.zeros(4, bool))[1]
        one_by_one = [policy.keys(Row(claimed, row), 9.0, CONFIG, False)[1] for row in range(4)]
        assert together.tolist() == pytest.approx(one_by_one)
        return together, policy.change(claimed, 9.0, CONFIG)

    keys, changes = claims([40.0, math.nan, 900.0, 5e6], [1.0, 1.0, 1.0, 0.0])
    assert keys[0] == 100.0, "claim and start"
    assert keys[1] == ages[1]
    assert keys[2] == pytest.approx(2.0 ** (40 / 4) / 1.5), "the next power of 2 ** (1/4) above 900 s"
    assert keys[3] == 5e6 + 60.0, "a claim that is longer than the age suggests needs no trust"
    assert changes[2] == pytest.approx(9.0 + 900.0 - 2.0 ** (39 / 4))
    keys, _ = claims([40.0, 40.0, math.nan, 40.0], [0.0, 0.0, 1.0, 0.5])
    assert keys[:3].tolist() == ages[:3].tolist(), "without trust, or without a claim of a running job, the age counts"
    assert 100.0 < keys[3] < ages[3]


def test_new_jobs_rank_higher_where_jobs_report(snapshot_of: Any) -> None:
    """A start shows how long a job needs: half of the jobs that ran for a minute report."""
    running = {"state": JobState.RUNNING, "last_start": 0.0}
    jobs = [snapshot_of.Job(str(at), ran=ran, **running) for at, ran in enumerate((600.0, 600.0, 600.0, 10.0))]
    there = snapshot_of(jobs, [snapshot_of.Node()]).jobs
    some = replace(there, claimed_remaining=np.array([50.0, math.nan, 50.0, math.nan]))
    none = replace(there, claimed_remaining=np.full(4, math.nan))
    waiting = snapshot_of([snapshot_of.Job("new"), snapshot_of.Job("old", ran=600.0)], [snapshot_of.Node()]).jobs

    def prices(jobs: Any) -> Any:
        policy = ADAPTIVE.fitted(hour_jobs(100), jobs)
        assert isinstance(policy, Adaptive)
        return policy.keys(waiting, 9.0, CONFIG, np.zeros(2, bool))[1].tolist()

    assert prices(none) == prices(there)
    new, old = prices(some)
    assert new < prices(none)[0]
    assert old == prices(none)[1], "a job that has run without a claim does not report"
