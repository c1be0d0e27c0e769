"""What a job had, in windows of time."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.usage import Usage, Window, usage

ALL = Window(0.0, math.inf)
JOB = JobRow("7@1000", "7", 1001, 1000.0, ended=True, over=2000.0)
FIRST = RunRow(JOB.key, 0, 1100.0, 1300.0, 4, "gpu01:4", restore=50.0, save=2.0, pause=5.0)
SECOND = RunRow(JOB.key, 1, 1500.0, 2000.0, 2, "gpu01:2", restore=10.0, redone=30, pace=0.5)


def test_a_job_that_was_preempted_once() -> None:
    assert usage(JOB, [FIRST, SECOND], ALL, 9999.0) == Usage(
        runs=2, preemptions=1, served=4 * 200 + 2 * 500, queued=100, parked=200, saving=4 * 5, restoring=2 * 10, redone=2 * 15
    )  # fmt: skip


def test_a_requeue_by_others_is_no_preemption() -> None:
    found = usage(JOB, [replace(FIRST, pause=None), SECOND], ALL, 9999.0)
    assert (found.preemptions, found.saving, found.restoring, found.redone, found.parked) == (0, 0, 0, 0, 200.0)


def test_what_lives_is_counted_until_now() -> None:
    job = replace(JOB, ended=False, over=0.0)
    assert usage(job, [], ALL, 1030.0) == Usage(queued=30.0)
    assert usage(job, [replace(FIRST, end=0.0, pause=None)], ALL, 1150.0).served == 4 * 50
    assert usage(job, [FIRST], ALL, 1450.0).parked == 150.0


def test_a_lie_costs_no_more_than_the_run() -> None:
    liar = replace(SECOND, restore=1e12, redone=10**12, pace=1e6)
    found = usage(JOB, [FIRST, liar], ALL, 9999.0)
    assert (found.restoring, found.redone) == (2 * 500, 2 * 500)


costs = st.none() | st.floats(0, 100)


@st.composite
def lives(draw: st.DrawFn) -> tuple[JobRow, list[RunRow]]:
    moments = sorted(draw(st.lists(st.integers(1000, 5000), min_size=2, max_size=12)))
    runs = [
        RunRow(
            JOB.key, restart, float(start), float(end), draw(st.integers(1, 8)), "", draw(costs), None,
            draw(costs), draw(st.none() | st.integers(0, 50)), draw(costs),
        )
        for restart, (start, end) in enumerate(zip(moments[1::2], moments[2::2], strict=False))
    ]  # fmt: skip
    return replace(JOB, submit=float(moments[0]), over=float(moments[-1])), runs


@given(lives(), st.lists(st.floats(900, 5100), max_size=3))
def test_windows_add_up(life: tuple[JobRow, list[RunRow]], cuts: list[float]) -> None:
    edges = [0.0, *sorted(cuts), math.inf]
    parts = [usage(*life, Window(*edge), 6000.0) for edge in pairwise(edges)]
    assert [sum(amounts) for amounts in zip(*parts, strict=True)] == pytest.approx(list(usage(*life, ALL, 6000.0)))


@given(lives())
def test_every_second_is_one_of_service_or_waiting(life: tuple[JobRow, list[RunRow]]) -> None:
    job, runs = life
    found = usage(job, [replace(run, gpus=1) for run in runs], ALL, 6000.0)
    assert found.served + found.queued + found.parked == pytest.approx(job.over - job.submit)
    assert found.runs == len(runs)
