"""What a policy may learn from: the jobs that are over. The simulator has them from its trace, the controller from its journal."""

from __future__ import annotations

import math
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
