"""The progress report of a job: `progress.json` in its control folder (control.py).

Rank 0 of the training program writes it (`Checkpointer.report`), or a process of the supervisor of a program that only prints its
progress (`tsbatch --steps-from`), at most once in INTERVAL_S. One JSON object:

    {"protocol": [1, 2], "restart": 0, "step": 1200, "total": 5000, "loss": 0.31, "samples": 76800, "until": {"loss": 0.2}}

restart: Slurm's restart count of the run. step: training steps done, of all runs together. total: steps of the whole job; null: not
known. loss, samples: the newest loss, and the samples that were trained on; null: not reported. until: when a training of an
unknown number of steps ends (convergence.py); null: not stated.

A report is a claim of the job's owner. The controller reads it as it reads the other files there: regular, small, owned by the
job's user, no links. A value outside of its bounds reads as missing, a report without a step as none. Light imports only.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control, convergence, versions
from tiresias.protocol.convergence import Convergence

INTERVAL_S = 1.0  # between two writes of one process, at least
LARGEST_LOSS = 1e30  # absolute value


class Progress(NamedTuple):
    """A progress report; the fields of progress.json.

    Attributes:
        restart: Slurm's restart count of the run that reports; -1: there is no report.
        step: Training steps done; -1: there is no report.
        total: Steps of the whole job; -1: not known.
        loss: The newest loss.
        samples: Samples that were trained on; -1: not known.
        until: When the training ends; None: not stated.
    """

    restart: int = -1
    step: int = -1
    total: int = -1
    loss: float | None = None
    samples: int = -1
    until: Convergence | None = None


NO_PROGRESS = Progress()


def write(folder: Path, progress: Progress) -> None:
    """Put the report into the job's control folder, in one rename. Raises OSError."""
    control.write(
        folder, control.PROGRESS,
        {
            versions.KEY: versions.OWN, "restart": progress.restart, "step": progress.step,
            "total": _or_none(progress.total), "loss": _loss(progress.loss), "samples": _or_none(progress.samples),
            "until": progress.until and progress.until.stated(),
        },
    )  # fmt: skip


def read(root: Path, uid: int, job_id: str) -> Progress:
    """Return the newest report of a job, NO_PROGRESS without a valid one."""
    found = control.read(control.job_folder(root, uid, job_id) / control.PROGRESS, uid)
    step, restart = control.integer(found.get("step")), control.integer(found.get("restart"))
    if step < 0 or restart < 0 or not versions.common(versions.OWN, versions.stated(found)):
        return NO_PROGRESS
    total = control.integer(found.get("total"))
    samples, until = control.integer(found.get("samples")), convergence.read(found.get("until"))
    return Progress(restart, step, total or -1, _loss(found.get("loss")), samples, until)


def _or_none(count: int) -> int | None:
    return count if control.integer(count) >= 0 else None


def _loss(value: object) -> float | None:
    """The loss where it is a finite number of a possible size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if -LARGEST_LOSS < value < LARGEST_LOSS and math.isfinite(value) else None
