"""Which of the jobs that Slurm refuses for one reason are tried, and when."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.slurm_plugin.admission.refusals import MAX_BACKOFF, Refusals, is_definite
from tiresias.slurm_plugin.backends.interface import SlurmJob

Make = Callable[..., SlurmJob]
REASON = "QOSMaxGRESPerUser"


def queue(pending: Make, count: int, **changes: object) -> list[SlurmJob]:
    return [pending(id=str(number), submit_time=number, **changes) for number in range(1, count + 1)]


def tried(refusals: Refusals, jobs: list[SlurmJob], now: float, starting: tuple[str, ...] = ()) -> list[str]:
    """The jobs that may be tried now."""
    trial = refusals.sort_out(jobs, starting, now, lambda job: True)
    return [job.id for job in jobs if job.id not in trial.held_back and job.id not in starting]


def test_one_refusal_keeps_the_whole_group_waiting_and_then_one_is_tried(pending: Make) -> None:
    jobs, refusals = queue(pending, 250, qos="small"), Refusals(60.0)
    others = [pending(id="900", qos="small", user="bob"), pending(id="901", qos="large")]
    refusals.note(jobs[0], REASON, 1000.0)
    assert tried(refusals, [*jobs, *others], 1001.0) == ["900", "901"]
    assert tried(refusals, [*jobs, *others], 1060.0) == ["1", "900", "901"]
    assert tried(refusals, jobs, 1061.0, ("1",)) == []
    refusals.note(jobs[0], REASON, 1062.0)
    assert tried(refusals, jobs, 1062.0 + 119) == []
    assert tried(refusals, jobs, 1062.0 + 120) == ["1"]


def test_several_that_are_refused_at_once_count_once(pending: Make) -> None:
    jobs, refusals = queue(pending, 20), Refusals(60.0)
    for job in jobs[:8]:
        refusals.note(job, REASON, 1000.0)
    assert tried(refusals, jobs, 1060.0) == ["1"]


def test_each_that_starts_doubles_how_many_are_tried(pending: Make) -> None:
    jobs, refusals = queue(pending, 9), Refusals(60.0)
    refusals.note(jobs[0], REASON, 1000.0)
    refusals.started(jobs[0])
    assert tried(refusals, jobs[1:], 1001.0) == ["2", "3"]
    refusals.started(jobs[1])
    refusals.started(jobs[2])
    trial = refusals.sort_out(jobs[3:], (), 1002.0, lambda job: True)
    assert not trial.held_back
    assert not trial.refused, "a group that may be tried whole is over"


def test_a_job_that_waits_for_something_else_leaves_its_turn_to_the_next(pending: Make) -> None:
    jobs, refusals = queue(pending, 3), Refusals(60.0)
    refusals.note(jobs[0], REASON, 1000.0)
    trial = refusals.sort_out(jobs, (), 1100.0, lambda job: job.id != "1")
    assert set(trial.held_back) == {"1", "3"}


def test_a_reason_about_what_a_job_asks_for_concerns_jobs_that_ask_alike(pending: Make) -> None:
    jobs, refusals = [*queue(pending, 2), pending(id="3", memory_per_cpu=9000)], Refusals(60.0)
    refusals.note(jobs[2], "MaxMemPerLimit", 1000.0)
    trial = refusals.sort_out(jobs, (), 1001.0, lambda job: True)
    assert trial.held_back == trial.refused == {"3": "MaxMemPerLimit"}


def test_jobs_that_ask_alike_are_one_group_where_slurm_refuses_the_call(pending: Make) -> None:
    jobs, refusals = queue(pending, 3), Refusals(60.0)
    for job in jobs[:2]:
        refusals.note(job, f"refused: job {job.id}: Requested partition configuration not available now", 1000.0)
    assert set(refusals.sort_out(jobs, (), 1001.0, lambda job: True).held_back) == {"1", "2", "3"}


def test_a_reason_that_is_not_definite_concerns_one_job(pending: Make) -> None:
    jobs, refusals = queue(pending, 3), Refusals(60.0)
    refusals.note(jobs[1], "Priority", 1000.0)
    assert refusals.sort_out(jobs, (), 1001.0, lambda job: True).held_back == {"2": "Priority"}


def test_jobs_of_another_size_are_no_part_of_a_limit_per_job(pending: Make) -> None:
    large, small = pending(id="1", gpus=8), pending(id="2", gpus=1)
    refusals = Refusals(60.0)
    refusals.note(large, "QOSMaxGRESPerJob", 1000.0)
    assert tried(refusals, [large, small], 1001.0) == ["2"]


def test_an_indefinite_reason_counts_for_the_longest_backoff_only(pending: Make) -> None:
    job, refusals = pending(id="1"), Refusals(60.0)
    refusals.note(job, "Resources", 1000.0)
    nearly = 1060.0 + MAX_BACKOFF * 60.0
    assert refusals.sort_out([job], (), nearly - 1, lambda job: True).refused
    assert not refusals.sort_out([job], (), nearly, lambda job: True).refused


def test_what_the_journal_remembers_of_a_refused_start_holds_after_a_restart(pending: Make) -> None:
    job, refusals = pending(id="1"), Refusals(60.0)
    refusals.recall("1", 2, 1100.0)
    assert tried(refusals, [job], 1099.0) == []
    trial = refusals.sort_out([job], (), 1100.0, lambda job: True)
    assert set(trial.refused) == {"1"}
    refusals.forget()
    assert not refusals.sort_out([job], (), 1100.0, lambda job: True).refused


def test_definite_reasons() -> None:
    assert all(is_definite(reason, 0.0) for reason in ("QOSGrpGRES", "AssocMaxJobsLimit", "Licenses", "PartitionDown"))
    assert not any(is_definite(reason, 100.0) for reason in ("Resources", "Priority", "None", "BeginTime", "Cleaning"))
    assert not is_definite("ReqNodeNotAvail", 1.0)
    assert is_definite("ReqNodeNotAvail", 2.0)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(["refused", "started"]), st.integers(0, 19), st.floats(0.1, 300.0)), max_size=40)
)
def test_a_group_is_tried_again_within_the_longest_backoff(pending: Make, events: list[tuple[str, int, float]]) -> None:
    """Whatever happened before."""
    jobs, refusals, now = queue(pending, 20), Refusals(60.0), 1000.0
    for what, at, seconds in events:
        now += seconds
        if what == "refused":
            refusals.note(jobs[at], REASON, now)
        else:
            refusals.started(jobs[at])
    assert tried(refusals, jobs, now + MAX_BACKOFF * 60.0)
