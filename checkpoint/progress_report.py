"""Progress reports of a training program, for the controller (protocol/progress.py)."""

from __future__ import annotations

import math
import time
from pathlib import Path

from tiresias.protocol import control, progress
from tiresias.protocol.convergence import Convergence
from tiresias.protocol.job_log import log_line

RETRY_S = 60.0  # after a report that could not be written


class ProgressReport:
    """progress.json of one training program.

    Args:
        folder: The job's control folder; None: no reports.
        restart: Slurm's restart count of this run.

    Attributes:
        interval: Seconds between two reports that are written, at least.
        next_at: Moment from which on the next report is written, on the monotonic clock.
        until: When the training ends; None: not stated.
    """

    def __init__(self, folder: Path | None, restart: int) -> None:
        self._folder, self._restart = folder, restart
        self._step, self.interval = -1, progress.INTERVAL_S
        self.next_at = -math.inf if folder else math.inf
        self.until: Convergence | None = None

    def write(self, step: int, total: int | None, loss: float | None, samples: int | None) -> None:
        """Write a report, and allow the next one `interval` later. A smaller step than the newest one is ignored.

        Values of other numeric types, such as a tensor of one element, are converted; what is no number is left out.
        """
        found = _whole(step)
        if self._folder is None or found <= self._step:
            return
        self._step, self.next_at = found, time.monotonic() + self.interval
        report = progress.Progress(self._restart, found, _whole(total), _number(loss), _whole(samples), self.until)
        try:
            progress.write(self._folder, report)
        except OSError as error:
            self.next_at += RETRY_S
            log_line(f"{self._folder}: {error.strerror}: the progress cannot be reported")


def _whole(value: object) -> int:
    """The value as a count; -1 where it is none."""
    number = _number(value)
    return -1 if number is None else control.integer(int(number))


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a tensor of several elements
        return None
    return number if math.isfinite(number) else None
