"""The text of a forecast: its codes and parameters in words."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tiresias.scheduler.forecast.forecast_codes import ForecastCode, ForecastReason

_WORDS: Mapping[ForecastCode, str] = {
    ForecastCode.SINKS: "{job} sinks below Q{queue}, if it runs on",
    ForecastCode.PREEMPTABLE: "{job}, ranked lower, may be preempted (policy.min_run)",
    ForecastCode.RANK_CHANGES: "{text}",
    ForecastCode.MORE_NODES: "it takes more nodes than the fewest, too",
    ForecastCode.SAVES_DUE: "deadline of the jobs preempted for it: they have saved, or continue to run",
    ForecastCode.BLOCKED_BY_SLURM: "Blocked by Slurm: {text}",
    ForecastCode.REFUSED_BY_SLURM: "Blocked by Slurm: {text}; the start is retried on free GPUs only",
    ForecastCode.SLURM_LIMIT: "a limit of Slurm's: {text}",
    ForecastCode.NOT_ELIGIBLE: "it may not be started yet",
    ForecastCode.NO_QUEUES: "under the policy {text} jobs ahead of it run for as long as they need{first}",
    ForecastCode.FIXED_JOBS: "jobs that cannot be preempted now hold what it needs, or it is not there",
    ForecastCode.LAST_QUEUE: "in the last queue those ahead of it may run until they end",
    ForecastCode.PROMOTIONS: "others may be promoted before it again and again",
    ForecastCode.SERVICE: (
        "{promoted}jobs ahead of it get at most {amount:.0f} GPU-seconds until all are below Q{queue}, and keep it waiting only "
        "while they hold {gpus} GPUs"
    ),
    ForecastCode.AFTER_RELEASE: "the job starts as soon as they have released their GPUs",
}


def forecast_in_words(reason: ForecastReason) -> str:
    """Return the text of a reason."""
    gpus = f"{reason.gpus} GPU{'s' if reason.gpus > 1 else ''}"
    return _WORDS[reason.code].format(
        text=reason.text,
        job=f"job {reason.job} ({gpus})",
        gpus=reason.gpus,
        queue=reason.queue + 1,
        amount=reason.amount,
        first=_goes_first(reason.seconds, reason.amount),
        promoted=_is_promoted(reason.seconds),
    )


def _goes_first(seconds: float, higher_s: float) -> str:
    if seconds == math.inf:
        return f"; it ranks higher in {_span(higher_s)} (policy.starve_limit)" if higher_s else ""
    when = f"in {_span(seconds)}" if seconds > 0 else "now"
    return f"; it goes before all others {when} (policy.starve_limit)"


def _is_promoted(seconds: float) -> str:
    return "" if seconds == math.inf else f"it is promoted in {_span(seconds)} at the latest; "


def _span(seconds: float) -> str:
    """Return a time in one unit: 90 s, 45 minutes, 30 hours, 4 days."""
    units = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))
    return next(
        (f"{seconds / length:.0f} {unit}" for unit, length in units if seconds >= 2 * length), f"{seconds:.0f} s"
    )
