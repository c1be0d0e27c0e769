"""What a policy may learn from: the jobs that are over. The simulator has them from its trace, the controller from its journal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Floats, Ints

# A fit serves until there is a tenth more to learn from, so that all fits together cost as much as eleven of the last one.
_GROWTH = 1.1


@dataclass(frozen=True, slots=True, eq=False)
class Completed:
    """Jobs in the order in which they completed; arrays of shape (jobs,).

    Attributes:
        gpus: GPUs of each job.
        service: All GPU-seconds that the job held, those without progress too, as `Jobs.attained` counts them.
        submit: Epoch seconds.
        user, vc, model: Names; "" where they are not known.
    """

    gpus: Ints
    service: Floats
    submit: Floats
    user: tuple[str, ...]
    vc: tuple[str, ...]
    model: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.gpus)

    def mean_run(self, there: Floats) -> float:
        """Return the mean run time of jobs, seconds; 0 where none has completed.

        The runs so far of the jobs that have not completed count into the sum, else long jobs would be missing in it: the
        maximum-likelihood estimate of a mean from censored run times that are exponentially distributed.

        Args:
            there: Seconds that each job in the cluster has run.
        """
        completed = float((self.service / np.maximum(self.gpus, 1)).sum())
        return (completed + float(there.sum())) / len(self) if len(self) else 0.0

    def followed_by(self, later: Completed) -> Completed:
        """Return these jobs and then `later` ones."""
        if not len(self):
            return later
        return Completed(
            np.concatenate((self.gpus, later.gpus)),
            np.concatenate((self.service, later.service)),
            np.concatenate((self.submit, later.submit)),
            self.user + later.user,
            self.vc + later.vc,
            self.model + later.model,
        )


NO_JOBS_COMPLETED = Completed(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), (), (), ())


def next_fit(completed: int) -> int:
    """The number of completed jobs at which it pays to learn again."""
    return max(completed + 1, math.ceil(completed * _GROWTH))


class MeanRun:
    """The mean run time of completed jobs, worked out again as their number grows.

    Attributes:
        seconds: The mean; 0 until a job has completed.
    """

    def __init__(self) -> None:
        self.seconds, self._learn_at = 0.0, 1

    def learn(self, over: int, past: Callable[[], Completed], there: Floats) -> None:
        """Take the mean over all jobs, where there is enough to learn.

        Args:
            over: Number of completed jobs.
            past: Reads them.
            there: As of `Completed.mean_run`.
        """
        if over >= self._learn_at:
            self.seconds, self._learn_at = past().mean_run(there), next_fit(over)
