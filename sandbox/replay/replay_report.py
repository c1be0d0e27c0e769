"""The table at the end of a replay: results per policy, with ratios. Pure.

All times are in seconds of the trace: measured times are multiplied by the time scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from tiresias.sandbox.replay.replay_policies import STOCK_POLICIES
from tiresias.sandbox.replay.replay_results import JobResult
from tiresias.sandbox.replay.shared_site import preempts

Summary = dict[str, float]
SHORTEST_S = 0.001  # a trace may contain jobs of 0 s

ROWS = {  # key -> (label, format)
    "mean_jct": ("mean JCT", "{:,.0f} s"),
    "median_jct": ("median JCT", "{:,.0f} s"),
    "p95_jct": ("95th percentile JCT", "{:,.0f} s"),
    "mean_queueing": ("mean queueing", "{:,.0f} s"),
    "makespan": ("makespan", "{:,.0f} s"),
    "mean_user_slowdown": ("mean slowdown of a user's jobs", "{:.2f}"),
    "worst_user_slowdown": ("worst user's slowdown", "{:.2f}"),
    "cpu_only_wait": ("mean wait of CPU-only jobs", "{:,.0f} s"),
    "unmanaged_wait": ("mean wait of unmanaged jobs", "{:,.0f} s"),
    "preemptions": ("preemptions", "{:,.0f}"),
    "suspensions": ("suspended by Slurm", "{:,.0f}"),
    "redone_gpu_hours": ("GPU-hours of lost work", "{:,.2f}"),
    "unexplained_inversions": ("unexplained inversions", "{:,.0f}"),
    "gpu_utilization": ("GPU utilization", "{:.1%}"),
    "fragmentation": ("waiting for whole nodes", "{:.1%}"),
    "jobs": ("jobs finished", "{:,.0f}"),
    "simulated_mean_jct": ("simulated mean JCT", "{:,.0f} s"),
    "simulated_to_measured": ("simulated / measured", "{:.3f}"),
    "means_to_measured": ("the same, means charged", "{:.3f}"),
    "over_slurm_fifo": ("speed-up over Slurm FIFO", "{:.2f}"),
    "over_slurm_backfill": ("speed-up over Slurm backfill", "{:.2f}"),
}
RATIOS = ("mean_jct", "median_jct", "p95_jct", "mean_queueing", "makespan")
BROKEN_UNLESS_ZERO = ("lost", "run_twice", "steps_redone", "curves_differ", "ledger_missing", "unexplained_inversions")


def summary(results: Sequence[JobResult], gpus: int, time_scale: float) -> Summary:
    """Return the results of one policy, with the keys of `tiresias simulate --json` and mean_first_queueing.

    mean_first_queueing: the mean wait for the first start. Queueing is all time of a job in which its trainer did not run.
    gpu_utilization: GPU-seconds of training / (gpus x makespan). nan if no job has finished.
    """
    done = [result for result in results if result.finished]
    jct = np.array([result.jct for result in done]) * time_scale
    training = np.array([result.training for result in done]) * time_scale
    makespan = _makespan(done) * time_scale
    return {
        "mean_jct": _mean(jct),
        "median_jct": _percentile(jct, 50),
        "p95_jct": _percentile(jct, 95),
        "p99_jct": _percentile(jct, 99),
        "makespan": makespan,
        "mean_queueing": _mean(jct - training),
        "mean_first_queueing": _mean(np.array([result.runs[0].start - result.submit for result in done]) * time_scale),
        "preemptions": sum(len(result.runs) - 1 for result in results if result.runs),
        "gpu_utilization": sum(result.gpu_seconds for result in done) * time_scale / (gpus * makespan)
        if done
        else float("nan"),
        "redone_gpu_hours": sum(map(_redone, done)) / 3600.0,
        **_of_users(list(user_slowdowns(done, time_scale).values())),
        "jobs": len(done),
    }


def user_slowdowns(done: Sequence[JobResult], time_scale: float) -> dict[str, float]:
    """Return by user of the trace the sum of its jobs' completion times over that of their run times alone."""
    jct: dict[str, float] = {}
    alone: dict[str, float] = {}
    for result in done:
        user = result.job.user
        jct[user] = jct.get(user, 0.0) + result.jct * time_scale
        alone[user] = alone.get(user, 0.0) + result.job.duration
    return {user: jct[user] / max(alone[user], SHORTEST_S) for user in jct}


def _of_users(slowdowns: Sequence[float]) -> Summary:
    return {
        "mean_user_slowdown": _mean(np.array(slowdowns)),
        "worst_user_slowdown": max(slowdowns, default=float("nan")),
    }


def _redone(result: JobResult) -> float:
    """Return the GPU-seconds of the trace that a job lost with killed runs and did again."""
    steps = sum(run.redone for run in result.runs)
    return steps * result.job.duration / max(result.steps, 1) * result.job.num_gpus


def training(results: Sequence[JobResult], time_scale: float) -> dict[str, float]:
    """Return the training time of each distributed job, by id, which depends on placement (Figure 12)."""
    done = [result for result in results if result.finished and result.job.num_gpus > 1]
    return {result.job.job_id: round(result.training * time_scale, 1) for result in done}


def ratios(summaries: Mapping[str, Summary], baseline: str) -> dict[str, Summary]:
    """Return each policy's times divided by the baseline's; no entry where the baseline's time is zero."""
    base = summaries[baseline]
    return {
        name: {key: other[key] / base[key] for key in RATIOS if base[key] > 0}
        for name, other in summaries.items()
        if name != baseline
    }


def speedups(summaries: Mapping[str, Summary]) -> dict[str, Summary]:
    """Return by policy how many times its mean JCT is shorter than that of unmodified Slurm, where that was replayed too."""
    stock = {
        f"over_{name.replace('-', '_')}": summaries[name]["mean_jct"] for name in STOCK_POLICIES if name in summaries
    }
    return {
        name: {key: base / each["mean_jct"] for key, base in stock.items()}
        for name, each in summaries.items()
        if name not in STOCK_POLICIES
    }


def broken(outcomes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each violated invariant. Where Slurm requeues jobs by their QOS, it loses work."""
    return [
        f"{name}: {key.replace('_', ' ')} is {each['invariants'][key]:g}"
        for name, each in outcomes.items()
        for key in BROKEN_UNLESS_ZERO
        if each["invariants"].get(key, 0) and not (key == "steps_redone" and preempts(name))
    ]


def table(summaries: Mapping[str, Summary], baseline: str, labels: Mapping[str, str]) -> Table:
    """Return one column per policy, with ratios to the baseline in parentheses. Four policies take 110 cells."""
    against = ratios(summaries, baseline)
    caption = f"in parentheses: ratio to {labels.get(baseline, baseline)}" if against else None
    result = Table(caption=caption, caption_justify="left")
    result.add_column("", no_wrap=True)
    for name in summaries:
        result.add_column(labels.get(name, name), justify="right", no_wrap=True)
    for key, (what, form) in ROWS.items():
        if not any(key in values for values in summaries.values()):
            continue
        cells = [_cell(form, values.get(key), against.get(name, {}).get(key)) for name, values in summaries.items()]
        result.add_row(what, *cells)
    return result


def _cell(form: str, value: float | None, ratio: float | None) -> str:
    if value is None:
        return ""
    return form.format(value) if ratio is None else f"{form.format(value)} ({ratio:.2f}x)"


def _makespan(done: Sequence[JobResult]) -> float:
    """Return the time from the first submission to the last end."""
    return max(result.finish for result in done) - min(result.submit for result in done) if done else float("nan")


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _percentile(values: np.ndarray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else float("nan")
