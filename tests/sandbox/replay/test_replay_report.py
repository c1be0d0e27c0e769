"""The table's numbers, worked out by hand."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from tiresias.sandbox.replay import replay_report
from tiresias.sandbox.replay.replay_policies import LABELS
from tiresias.sandbox.replay.replay_results import NEVER, JobResult, JobRun
from tiresias.simulator.trace import TraceJob


def result(job: str, gpus: int, submit: float, *runs: tuple[float, float], finish: float | None = None) -> JobResult:
    made = tuple(JobRun(row, start, 0, 0, 1, 1.0, end, 1) for row, (start, end) in enumerate(runs))
    trace = TraceJob(job, submit, gpus, 1.0, "", "", "", "")
    return JobResult(trace, job, submit, made, runs[-1][1] if finish is None else finish, 1, "")


TWO = [result("a", 1, 0.0, (1.0, 11.0)), result("b", 4, 2.0, (2.0, 4.0), (8.0, 12.0))]


def test_summary_of_two_jobs() -> None:
    summary = replay_report.summary(TWO, gpus=4, time_scale=10.0)
    assert summary["mean_jct"] == pytest.approx(105)
    assert summary["median_jct"] == pytest.approx(105)
    assert summary["mean_queueing"] == pytest.approx((10 + 40) / 2)
    assert summary["mean_first_queueing"] == pytest.approx(5)
    assert summary["makespan"] == pytest.approx(120)
    assert summary["preemptions"] == 1
    assert summary["gpu_utilization"] == pytest.approx((1 * 10 + 4 * 6) / (4 * 12))
    assert summary["jobs"] == 2


def test_a_lost_job_is_not_in_the_means() -> None:
    lost = result("c", 1, 0.0, (1.0, NEVER), finish=NEVER)
    assert replay_report.summary([*TWO, lost], 4, 10.0)["mean_jct"] == pytest.approx(105)
    assert math.isnan(replay_report.summary([lost], 4, 10.0)["mean_jct"])


def test_ratios_are_to_the_baseline() -> None:
    summary = replay_report.summary(TWO, 4, 1.0)
    twice = {key: 2 * value for key, value in summary.items()}
    assert replay_report.ratios({"las": summary, "slurm-fifo": twice}, "las")["slurm-fifo"][
        "mean_jct"
    ] == pytest.approx(2)


def test_table_shows_each_policy_and_its_ratio() -> None:
    summary = replay_report.summary(TWO, 4, 10.0)
    slower = summary | {"mean_jct": 5.5 * summary["mean_jct"]}
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(replay_report.table({"las": summary, "slurm-fifo": slower}, "las", {"las": "Tiresias-L"}))
    text = console.export_text()
    assert "Tiresias-L" in text
    assert "105 s" in text
    assert "578 s (5.50x)" in text
    assert "in parentheses: ratio to Tiresias-L" in text


def test_the_table_of_four_policies_is_whole_at_110_columns() -> None:
    summary = {key: 1000 * value for key, value in replay_report.summary(TWO, 4, 10.0).items()} | {
        "gpu_utilization": 0.7
    }
    names = ("slurm-backfill", "slurm-fifo", "las", "adaptive")
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(replay_report.table({name: dict(summary) for name in names}, "las", LABELS))
    lines = console.export_text().splitlines()
    assert all(any(f" {LABELS[name]} " in line for line in lines) for name in names)
    assert not any("…" in line for line in lines)
    assert max(map(len, lines)) <= 110


def test_broken_invariants_are_named() -> None:
    outcomes = {"las": {"invariants": {"lost": 0, "run_twice": 2}}, "slurm-fifo": {"invariants": {"lost": 0}}}
    assert replay_report.broken(outcomes) == ["las: run twice is 2"]


def test_speedups_are_over_unmodified_slurm_and_stand_in_the_table() -> None:
    nothing = dict.fromkeys(replay_report.RATIOS[1:], 0.0)
    summaries = {
        "slurm-fifo": {"mean_jct": 600.0, **nothing},
        "las": {"mean_jct": 150.0, **nothing, "simulated_mean_jct": 147.0, "simulated_to_measured": 0.98},
    }
    found = replay_report.speedups(summaries)
    assert found == {"las": {"over_slurm_fifo": 4.0}}
    summaries["las"] |= found["las"]
    console = Console(file=io.StringIO(), width=120)
    console.print(replay_report.table(summaries, "slurm-fifo", LABELS))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "speed-up over Slurm FIFO" in text
    assert "0.980" in text
    assert "Slurm backfill" not in text, "it was not replayed"
