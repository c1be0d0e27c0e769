"""The first line of the output of `tiresias whatif` and of its HTML report, and the terms of the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tiresias.simulator.experiments.policy_comparison import RECORDED, WORSE, PolicyComparison, losers
from tiresias.simulator.experiments.tenant_runs import SHORT

EVEN = 1.02  # ratio of mean JCT within which two policies count as even
TRUSTED = 1.2  # ratio to the recorded mean JCT above which the replays are not trusted


class Conclusion(NamedTuple):
    """The conclusion, and whether the best alternative is better than the present policy; None where they are even."""

    text: str
    is_better: bool | None


def conclusion(found: PolicyComparison) -> Conclusion:
    """Compare the policies by the mean JCT of all jobs."""
    if not found.alternatives:
        return Conclusion(f"Only the present policy ({found.present}) was replayed: there is nothing to compare.", None)
    jct = {name: float(found.jct[name].mean()) for name in (found.present, *found.alternatives)}
    best = min(found.alternatives, key=lambda name: jct[name])
    ratio = jct[best] / jct[found.present] if jct[found.present] else 1.0
    numbers = f"{jct[best]:,.0f} s instead of {jct[found.present]:,.0f} s"
    text, is_better = _judged(best, found.present, ratio, numbers, len(found.alternatives))
    lost = losers(found, best)["jobs"]
    later = f" {lost:.1%} of the jobs would end more than {WORSE - 1:.0%} later." if lost else ""
    return Conclusion(f"{text}{later}{_doubt(found.trust)}", is_better)


def _judged(best: str, present: str, ratio: float, numbers: str, alternatives: int) -> tuple[str, bool | None]:
    if ratio * EVEN < 1:
        return (
            f"On these jobs {best} is better than {present}: mean job completion time {1 / ratio:.2f} times shorter ({numbers}).",
            True,
        )
    if ratio < EVEN:
        return f"On these jobs {best} and {present} are even: mean job completion time {numbers}.", None
    none = (
        f"{best} is worse than {present}"
        if alternatives == 1
        else f"none of the policies replayed is better than {present}"
    )
    worse = f"mean job completion time {ratio:.2f} times longer with {best} ({numbers})"
    return f"On these jobs {none}: {worse}. `tiresias tune` looks for settings that are better.", False


def _doubt(trust: float | None) -> str:
    if trust is None or 1 / TRUSTED < trust < TRUSTED:
        return ""
    return (
        f" The replay of the present policy gives {trust:.2f} times the recorded mean JCT: trust these numbers little."
    )


_POLICIES = {
    "best_effort": "the first job in the queue that fits is started, as with backfill; no job is preempted",
    "fifo": "jobs start in the order in which they arrived; none overtakes another, none is preempted",
    "las": "least attained service: the fewer GPU-seconds a job has had, the earlier it runs; longer ones are preempted",
    "gittins": "as las, but within a queue the jobs that are the most likely to end soon go first",
    "adaptive": "jobs that will probably end soon go first, judged from earlier jobs; preempts only where that pays",
    "time_sharing": "jobs take turns of equal length",
}
_TERMS = {
    "job completion time (JCT)": "seconds from the submission of a job to its end: all waits and all runs",
    "mean, median, 95th, 99th": "of the JCT of all jobs: the average; the time below which half, 95% and 99% of the jobs ended",
    "queueing": "the mean time of a job without GPUs, before its first start and between its runs",
    "makespan": "from the first submission to the last end",
    "preemptions": "how often a job saved a checkpoint and gave its GPUs back, to go on from the checkpoint later",
    "GPUs used": "share of the time of all GPUs in which they belonged to jobs",
    "replay": "a simulation of the same jobs, with the same submit times, sizes and durations, under one policy",
    "simulated in": "how long the computer took for the replay",
    "numbers in parentheses": "times the same number of the present policy; below 1 is better, above 1 is worse",
}

_RULES = {
    "virtual_clusters": "each virtual cluster gets its cells at once when it needs them; others use them while they are idle",
    "private_clusters": "each virtual cluster has nodes of its own, which no other job uses",
    "gpu_quotas": "each virtual cluster has as many GPUs as its cells, on any nodes; others use them while they are idle",
}


def terms(found: PolicyComparison) -> Iterator[tuple[str, str]]:
    """Yield each term of the report and its meaning."""
    yield from _TERMS.items()
    if RECORDED in found.jct:
        yield (
            RECORDED,
            "what accounting recorded; the replay of the present policy, compared with it, shows how exact replays are",
        )
    for name in dict.fromkeys(run.partition(", ")[0] for run in found.runs):
        if name in _POLICIES:
            yield name, _POLICIES[name]
    for tenants in found.shared.rules if found.shared else ():
        if tenants.rule in _RULES:
            yield SHORT[tenants.rule], _RULES[tenants.rule]
