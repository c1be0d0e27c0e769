"""Spans between events, worked out by hand."""

from __future__ import annotations

import pytest

from tiresias.sandbox.replay import latency
from tiresias.sandbox.replay.replay_results import JobResult, JobRun
from tiresias.simulator.trace import TraceJob
from tiresias.slurm_plugin.state.journal_rows import Decision


def result(job: str, submit: float, *runs: tuple[float, float]) -> JobResult:
    made = tuple(JobRun(row, start, 0, 0, 1, 1.0, end, 1) for row, (start, end) in enumerate(runs))
    return JobResult(TraceJob(job, submit, 1, 1.0), job, submit, made, runs[-1][1], 1, "")


def test_only_a_start_right_after_an_end_is_a_handover() -> None:
    first = result("a", 0.0, (1.0, 10.0))
    successor = result("b", 2.0, (10.5, 20.0))
    own = result("c", 20.25, (21.0, 30.0))  # it came after the end of b: its start may be due to its submission
    assert latency.handovers([first, successor, own]) == [(10.0, 10.5, "b")]


def test_a_preemptions_end_is_no_job_end() -> None:
    preempted = result("a", 0.0, (1.0, 10.0), (12.0, 20.0))
    assert latency.handovers([preempted, result("b", 2.0, (10.5, 11.0))]) == [(11.0, 12.0, "a")]


def test_a_release_lasts_from_the_end_to_the_decision_on_the_gpus() -> None:
    found = [latency.Handover(10.0, 10.5, "b"), latency.Handover(20.0, 21.0, "a"), latency.Handover(30.0, 31.0, "c")]
    given = {"b": [1.0, 10.25, 15.0], "a": [19.0]}  # a: decided before the end; c: not known
    assert latency.releases(found, given) == [0.25]


def test_an_arrival_lasts_from_a_submission_to_the_decision_that_only_it_explains() -> None:
    alone = result("a", 0.0, (1.0, 10.0))
    waits, other = result("b", 20.0, (23.0, 30.0)), result("c", 21.0, (40.0, 41.0))
    given = {"a": [0.25], "b": [22.0], "c": [39.5]}
    assert latency.arrivals([alone, waits, other], given) == [0.25]
    assert latency.arrivals([alone], {}) == []


def test_spans_pair_each_jobs_own_decisions() -> None:
    decisions = [
        Decision(1.0, "7", "preempt", ""),
        Decision(1.5, "8", "preempt", ""),
        Decision(2.0, "7", "parked", ""),
        Decision(2.5, "8", "left running", ""),
        Decision(3.0, "8", "parked", ""),
        Decision(4.0, "9", "start", ""),
    ]
    assert latency.spans(decisions, "preemption") == [1.0]
    assert latency.spans(decisions, "start") == []


def test_summary() -> None:
    assert latency.summary([]) == {"count": 0}
    assert latency.summary([1.0, 2.0, 6.0]) == {
        "count": 3,
        "median": 2.0,
        "mean": 3.0,
        "p95": pytest.approx(5.6),
        "max": 6.0,
    }
