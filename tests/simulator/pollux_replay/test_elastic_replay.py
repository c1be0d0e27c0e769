"""The workloads of Pollux' artifact: the published completion times of two schedulers are found again."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.shared_data import shared_data
from tiresias.errors import UsageError
from tiresias.simulator.pollux_replay.batch_progress import BatchProgress, read_batch_progress
from tiresias.simulator.pollux_replay.elastic_replay import SCHEDULES, Measurements, replayed
from tiresias.simulator.pollux_replay.measured_steps import MeasuredSteps, read_measured_steps
from tiresias.simulator.pollux_replay.training import MeasuredTraining
from tiresias.simulator.pollux_replay.workloads import Workload, read_workloads


@cache
def measurements() -> Measurements:
    times = read_measured_steps(shared_data("optimus/adaptdl_aws_steps.csv.gz"))
    return Measurements(times, read_batch_progress(shared_data("optimus/adaptdl_validation.csv.gz")))


def workloads(load: float) -> list[Workload]:
    pytest.importorskip("scipy", reason="sizes that were not measured need scipy")
    return [each for each in read_workloads(shared_data("optimus/adaptdl_workloads_jct.csv.gz")) if each.load == load]


def mean_jct(work: Workload, schedule: str) -> float:
    return float(replayed(work, measurements(), SCHEDULES[schedule]).jct.mean())


@pytest.mark.parametrize("load", [0.5, 1.0, 1.5, 2.0])
def test_the_published_times_of_tiresias(load: float) -> None:
    for work in workloads(load):
        assert mean_jct(work, "tiresias") == pytest.approx(work.recorded["tiresias"].mean(), rel=0.15)


def test_the_published_times_of_optimus_and_shorter_ones() -> None:
    work = workloads(0.5)[-1]
    optimus = mean_jct(work, "optimus")
    assert optimus == pytest.approx(work.recorded["optimus"].mean(), rel=0.15)
    assert mean_jct(work, "weighted_gain") < min(optimus, mean_jct(work, "tiresias"))


def test_a_larger_batch_needs_fewer_steps_but_more_samples() -> None:
    found = BatchProgress(np.array([10.0, 1000.0]), np.array([5.0, 5.0]), np.array([[0.5, 0.1], [0.5, 0.1]]))
    assert found.steps(10) == pytest.approx(10.0)
    assert 10.0 / 4 < found.steps(40) < 10.0
    assert found.steps(5000) == found.steps(1000)


def test_gradients_are_accumulated_where_the_memory_is_full() -> None:
    sizes = np.array([[1.0, 1.0, samples] for samples in (8.0, 16.0)] + [[1.0, 4.0, 16.0]])
    times = MeasuredSteps(sizes, np.array([[1.0, 0.1], [2.0, 0.1], [2.2, 0.4]]))
    steps = BatchProgress(np.array([8.0, 64.0]), np.array([7.0]), np.ones((2, 1)))
    training = MeasuredTraining("resnet", 64, times, steps)
    assert training.most_gpus == 8
    assert training.seconds(4, 1) == pytest.approx(7 * 2.2)
    assert training.seconds(1, 1) == pytest.approx(7 * (2.0 + 3 * 1.9))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model,num_nodes\nbert,1\n", "no column"),
        ("model,num_nodes,num_gpus,local_bsz,step_time_s,sync_time_s\nbert,1,1,4,soon,0\n", "is not a number"),
    ],
)
def test_a_file_that_is_no_table(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "steps.csv"
    file.write_text(text)
    with pytest.raises(UsageError, match=problem):
        read_measured_steps(file)
