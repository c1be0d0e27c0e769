"""Whether jobs wait for GPUs, or for GPUs that are together."""

from __future__ import annotations

import math

import pytest

from tiresias.sandbox.replay.fragmentation import share
from tiresias.sandbox.replay.replay_results import JobResult, JobRun
from tiresias.simulator.trace import TraceJob


def result(gpus: int, submit: float, *runs: tuple[float, float]) -> JobResult:
    ran = tuple(JobRun(at, start, 0, 0, 1, 1.0, end, 0) for at, (start, end) in enumerate(runs))
    job = TraceJob(f"{gpus}-{submit}", submit, gpus, 1.0)
    return JobResult(job, "1", submit, ran, runs[-1][1] if runs else math.nan, 1, "")


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([result(4, 0, (0, 10))], math.nan),  # no job waits
        ([result(3, 0, (0, 10)), result(3, 0, (0, 10)), result(4, 0, (10, 20))], 0.0),  # 2 of 8 GPUs are free
        ([result(2, 0, (0, 10)), result(2, 0, (0, 10)), result(4, 0, (10, 20))], 1.0),  # 4 are, on two nodes
        ([result(2, 0, (0, 10)), result(2, 0, (0, 20)), result(2, 0, (0, 10)), result(4, 0, (15, 20))], 5 / 15),
        ([result(2, 0, (0, 10)), result(2, 0, (10, 20))], math.nan),  # less than a node
    ],
)
def test_share_of_the_waiting(results: list[JobResult], expected: float) -> None:
    assert share(results, 8, 4) == pytest.approx(expected, nan_ok=True)
