"""Knobs chosen by the past, tried on what comes after."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiresias.errors import UsageError
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments import tuning
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.simulation_rules import Cost
from tiresias.simulator.trace import Trace, TraceJob
from tiresias.slurm_plugin.config import load_config


def busy(weeks: int, seed: int = 1, jobs: int = 40) -> Trace:
    """Most jobs are short, some are long, and two GPUs are not enough."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, weeks * tuning.WEEK, weeks * jobs))
    submit[0] = 0.0
    duration = np.where(
        rng.random(len(submit)) < 0.8, rng.uniform(100, 2000, len(submit)), rng.uniform(20_000, 200_000, len(submit))
    )
    return Trace.of(
        TraceJob(str(at), *row)
        for at, row in enumerate(zip(submit, rng.integers(1, 3, len(submit)), duration, strict=True))
    )


def setup(trace: Trace, threshold: float = 3600.0) -> Setup:
    return Setup("test", trace, ClusterSize(1, 2), replace(tuning.present(), thresholds=(threshold,)), Cost(0.0, 60.0))


@pytest.fixture(scope="module")
def tuned() -> tuning.Tuned:
    return tuning.tune(setup(busy(5)))


def test_the_first_week_keeps_the_present_setting(tuned: Any) -> None:
    assert [week.number for week in tuned.weeks] == [1, 2, 3, 4]
    assert (tuned.weeks[0].chosen, tuned.weeks[0].ratio) == (tuning.PRESENT, 1.0)
    assert all(week.ratios[tuning.PRESENT] == 1.0 for week in tuned.weeks)


def test_later_jobs_have_no_influence(tuned: Any) -> None:
    """The same until the end of the third week, other jobs after it."""
    known, other = busy(5), busy(5, seed=2, jobs=60)
    until = 4 * tuning.WEEK
    jobs = [job for job in known.jobs() if job.submit_time < until] + [
        replace(job, job_id=f"other{job.job_id}") for job in other.jobs() if job.submit_time >= until
    ]
    again = tuning.tune(setup(Trace.of(jobs)))
    assert again.weeks[:3] == tuned.weeks[:3]
    assert again.weeks[3].chosen == tuned.weeks[3].chosen
    assert again.weeks[3].ratios != tuned.weeks[3].ratios


def test_a_setting_that_is_far_off_is_left(tuned: Any) -> None:
    """With everybody in one queue short jobs wait for long ones."""
    found = tuning.tune(setup(busy(5), threshold=1e9))
    assert found.recipe != tuning.PRESENT
    assert found.gain < 0.9
    assert found.spread[0] <= found.gain <= found.spread[1]


def test_thresholds_are_of_the_services_seen() -> None:
    services = np.array([10.0] * 50 + [1000.0] * 45 + [1e6] * 5)
    made = tuning.RECIPES["las, half and nine tenths"](tuning.present(), services)
    assert made.thresholds == (500.0, 1000.0)


def test_too_little_is_known() -> None:
    with pytest.raises(UsageError, match="three weeks"):
        tuning.tune(setup(busy(2)))


def test_the_proposal_can_be_copied(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    rows = [f"{job.job_id},{job.submit_time},{job.num_gpus},{job.duration}" for job in busy(4).jobs()]
    file.write_text("\n".join(["job_id,submit_time,num_gpus,duration", *rows]))
    words = [
        sys.executable,
        "-m",
        "tiresias",
        "tune",
        str(file),
        "--nodes",
        "1",
        "--gpus-per-node",
        "2",
        "--threshold",
        "1e9",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=True)
    section = textwrap.dedent(done.stdout[done.stdout.index("    [policy]") :])
    (tmp_path / "tiresias.toml").write_text(section)
    assert load_config(tmp_path / "tiresias.toml", {}, {}).policy.thresholds != (1e9,)
