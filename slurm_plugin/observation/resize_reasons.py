"""Why a running job changes its size, for the log: from how many GPUs or parameter servers to how many, and the predicted gain."""

from __future__ import annotations

import math

from tiresias.scheduler.model import Resize
from tiresias.slurm_plugin.observation.job_estimates import JobEstimates
from tiresias.slurm_plugin.state.ledger import Ledger


class ResizeReasons:
    """The reasons of changes of size.

    Args:
        ledger: The jobs.
        estimates: What is expected of them.
    """

    def __init__(self, ledger: Ledger, estimates: JobEstimates) -> None:
        self._ledger, self._estimates = ledger, estimates

    def why(self, resize: Resize) -> str:
        """Return the reason of a change of size; "" where the job's present size is not known."""
        runs = self._ledger.runs_of(self._ledger.jobs[resize.job])
        if not runs:
            return ""
        gpus = runs[-1].gpus
        if gpus == resize.gpus:
            return self._other_servers(resize.job, gpus, runs[-1].servers)
        return f"from {gpus} to {resize.gpus} GPUs {_cause(resize, gpus)}{self._predicted(resize, gpus)}"

    def _other_servers(self, job_id: str, gpus: int, servers: int) -> str:
        """Return the reason of another number of parameter servers; "" where it is not known."""
        found, now = self._estimates.sizes.get(job_id), self._estimates.present.get(job_id, math.nan)
        if found is None or found.servers is None or gpus >= len(found.servers):
            return ""
        return f"from {servers} to {found.servers[gpus]} parameter servers{_gain(now, float(found.seconds[0, gpus]))}"

    def _predicted(self, resize: Resize, gpus: int) -> str:
        """Return the predicted time that is left, before and after."""
        found = self._estimates.sizes.get(resize.job)
        seconds = [] if found is None else [float(one) for one in found.seconds[0]]
        if max(gpus, resize.gpus) >= len(seconds):
            return ""
        return _gain(self._estimates.present.get(resize.job, seconds[gpus]), seconds[resize.gpus])


def _gain(now: float, then: float) -> str:
    """Return the predicted seconds left before and after; "" where they are not known."""
    known = math.isfinite(now) and math.isfinite(then)
    return f"; predicted: {_minutes(then)} left instead of {_minutes(now)}" if known else ""


def _cause(resize: Resize, gpus: int) -> str:
    if resize.beneficiary:
        return f"for job {resize.beneficiary}"
    if resize.is_sample:
        return "to time its steps there (policy.size_samples)"
    return "on idle GPUs" if resize.gpus > gpus else "as other jobs wait for GPUs or gain more from them"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"
