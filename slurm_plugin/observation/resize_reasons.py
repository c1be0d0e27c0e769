"""Why a running job changes its size, for the log: from how many GPUs to how many, and the predicted gain."""

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
        if not runs or runs[-1].gpus == resize.gpus:
            return ""
        gpus = runs[-1].gpus
        cause = "on idle GPUs" if resize.gpus > gpus else "as other jobs wait for GPUs or gain more from them"
        return f"from {gpus} to {resize.gpus} GPUs {cause}{self._predicted(resize, gpus)}"

    def _predicted(self, resize: Resize, gpus: int) -> str:
        """Return the predicted time that is left, before and after."""
        found = self._estimates.sizes.get(resize.job)
        seconds = [] if found is None else [float(one) for one in found.seconds[0]]
        if max(gpus, resize.gpus) >= len(seconds):
            return ""
        now, then = seconds[gpus], seconds[resize.gpus]
        if not (math.isfinite(now) and math.isfinite(then)):
            return ""
        return f"; predicted: {_minutes(then)} left instead of {_minutes(now)}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"
