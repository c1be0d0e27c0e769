"""Workloads for learned placements: their load and their arrivals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.__main__ import main
from tiresias.errors import UsageError
from tiresias.simulator import PlacementWorkload, Trace, TraceJob, read_trace

REAL = Trace.of([TraceJob(str(row), float(at), 1, 60.0) for row, at in enumerate((0, 10, 11, 12, 100, 300))])


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(["uniform", "poisson", REAL]), st.sampled_from([0.3, 1.0, 2.0]), st.integers(0, 10**6))
def test_jobs_follow_from_the_seed_and_make_the_load(arrivals: str | Trace, load: float, seed: int) -> None:
    workload = PlacementWorkload(jobs=500, arrivals=arrivals, load=load)
    jobs, again = workload.trace(seed, 64), workload.trace(seed, 64)
    assert jobs.jobs() == again.jobs()
    assert (jobs.submit[0], len(jobs), len(set(jobs.model))) >= (0.0, 500, 10)
    assert set(jobs.gpus.tolist()) == set(range(1, 9))
    assert 600.0 <= jobs.duration.min() <= jobs.duration.max() <= 7200.0
    assert float(jobs.gpus @ jobs.duration) / (64 * jobs.submit[-1]) == pytest.approx(load, rel=0.25)


def test_uniform_arrivals_are_equally_many_in_each_interval() -> None:
    workload = PlacementWorkload(jobs=300, arrivals="uniform", load=0.7, interval=1800.0)
    submit = workload.trace(3, 256).submit
    span = float(workload.trace(3, 256).gpus @ workload.trace(3, 256).duration) / (256 * 0.7)
    intervals = max(round(span / 1800.0), 1)
    counts = np.bincount((submit / (span / intervals)).astype(int))
    assert len(counts) == intervals
    assert counts.max() - counts.min() <= 1


def test_the_gaps_of_a_trace_are_kept_in_proportion() -> None:
    gaps = np.diff(PlacementWorkload(jobs=5, arrivals=REAL).trace(1, 8).submit)
    whole = np.diff(REAL.submit)
    rotations = [np.roll(whole, -first)[:4] for first in range(5)]
    assert any(np.allclose(gaps / gaps.sum(), each / each.sum()) for each in rotations)


@pytest.mark.parametrize(
    "impossible",
    [
        {"jobs": 0}, {"load": 0.0}, {"load": float("nan")}, {"most_gpus": 0}, {"shortest": 0.0}, {"shortest": 9.0, "longest": 8.0},
        {"interval": -1.0}, {"arrivals": "sometimes"}, {"arrivals": Trace.of([TraceJob("a", 0.0, 1, 1.0)])},
    ],
)  # fmt: skip
def test_impossible_workloads_are_refused(impossible: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        PlacementWorkload(**impossible)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_submissions_of_one_moment_stay_of_one_moment() -> None:
    batch = Trace.of([TraceJob(str(row), 0.0, 1, 1.0) for row in range(4)])
    assert PlacementWorkload(jobs=9, arrivals=batch).trace(1, 8).submit.tolist() == [0.0] * 9


def test_the_command_writes_the_jobs_with_the_arrivals_of_a_trace(tmp_path: Path) -> None:
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    assert main(["workload", "placement", "--jobs", "40", "--gpus", "16", "--out", str(first)]) == 0
    assert main(["workload", "placement", "--jobs", "20", "--arrivals", str(first), "--out", str(second)]) == 0
    one, other = read_trace(first), read_trace(second)
    assert np.array_equal(one.gpus, PlacementWorkload(jobs=40).trace(1, 16).gpus)
    expected = PlacementWorkload(jobs=20, arrivals=one).trace(1, 64)
    assert np.array_equal(other.submit, np.floor(expected.submit))
    assert other.model == expected.model


def test_impossible_arrivals_of_the_command_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "placement", "--arrivals", "never.csv", "--out", str(tmp_path / "a.csv")]) == 2
    error = capsys.readouterr().err
    assert "never.csv: cannot be read" in error
    assert error.count("\n") == 1
