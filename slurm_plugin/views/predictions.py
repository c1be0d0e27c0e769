"""Texts of what is predicted of a job: its end, and what a change of its size gained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from tiresias.slurm_plugin.views.text import clock, duration, printable

if TYPE_CHECKING:
    from tiresias.protocol.published_job import PublishedJob, PublishedRun


def sizes(job: PublishedJob) -> str:
    """Return the fewest and the most GPUs of an elastic job, "2-8"; "" of another one."""
    least, most = job.get("min_gpus"), job.get("max_gpus")
    return "" if least is None or most is None else f"{least}-{most}"


def servers(job: PublishedJob) -> str:
    """Return the parameter servers of an elastic job, with the fewest and the most, "2 (1-4)"; "" of another one."""
    count = job.get("servers")
    return "" if count is None else f"{count} ({printable(job.get('server_counts', ''), 20)})"


def end_in(job: PublishedJob, now: float) -> str:
    """Return the time until the predicted end and its interval, "2h10m ±12m", in a few cells; "" where it is not known."""
    low, end, high = job.get("end_low"), job.get("end"), job.get("end_high")
    if low is None:
        return ""
    if end is None or high is None:
        return f">{duration(low - now)}"
    return f"{duration(end - now)} ±{_rough(max(high - end, end - low))}"


def _rough(seconds: float) -> str:
    """Return a duration in one unit: 40s, 12m, 30h, 12d."""
    for unit, length in (("s", 1.0), ("m", 60.0), ("h", 3600.0)):
        if seconds < 100.0 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds / 86400.0:.0f}d"


def end_text(job: PublishedJob, now: float) -> str:
    """Return the predicted end with its interval; "" where it is not known."""
    low, end, high = job.get("end_low"), job.get("end"), job.get("end_high")
    if low is None:
        return ""
    if end is None:
        return "it is not expected to converge" if high is None else f"after {clock(low, now)}"
    until = "later" if high is None else clock(high, now)
    return f"{clock(end, now)}, in {duration(end - now)} (90%: {clock(low, now)} to {until})"


def last_change(runs: Sequence[PublishedRun]) -> str:
    """Return what the last change of the numbers of GPUs and servers gained; "" where they never changed, or no step was timed."""
    pairs = [pair for pair in pairwise(runs) if _size(pair[0]) != _size(pair[1])]
    if not pairs:
        return ""
    before, after = pairs[-1]
    verb = "grew" if _size(after) > _size(before) else "shrank"
    text = (
        f"{verb} from {before['gpus']} to {after['gpus']} GPUs{_servers(before, after)} in run {after['restart'] + 1}"
    )
    return text + _steps(before.get("timed"), after.get("timed"), after.get("expected"))


def _size(run: PublishedRun) -> tuple[int, int]:
    return run["gpus"], run.get("servers", 0)


def _servers(before: PublishedRun, after: PublishedRun) -> str:
    """Return the change of the number of servers; "" of a job without them."""
    counts = before.get("servers", 0), after.get("servers", 0)
    return f" and from {counts[0]} to {counts[1]} servers" if any(counts) else ""


def _steps(before: float | None, after: float | None, expected: float | None) -> str:
    """Return the seconds a step before and after a change, and those that were expected."""
    foreseen = "" if expected is None else f", expected were {step_seconds(expected)}"
    if before is None or after is None:
        return f": its steps are not timed yet{foreseen}"
    change = f", {before / after:.1f} times as fast" if after <= before else f", {after / before:.1f} times as slow"
    return f": {step_seconds(after)} a step instead of {step_seconds(before)}{change}{foreseen}"


def step_seconds(seconds: float | None) -> str:
    """Return the seconds of a step with three digits; "" where they are not known."""
    if seconds is None:
        return ""
    return f"{1000 * seconds:.3g}ms" if seconds < 0.1 else f"{seconds:.3g}s" if seconds < 1000 else f"{seconds:.0f}s"
