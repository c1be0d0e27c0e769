"""How fast completed jobs are forgotten: with the half-life by which later completions were predicted best so far.

A load changes, so recent completions predict better than old ones; but the fewer of them count, the less is known of long jobs, of
which few end. Which effect is stronger differs from cluster to cluster. So each of several half-lives has a score: the sum over all
completions of the logarithm of the chance that the hazards learned with it from earlier completions gave to them (prequential
likelihood). The half-life of the highest score is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.estimates.hazard import PRIOR_WEIGHT, UNKNOWN, Hazards
from tiresias.scheduler.model import Floats

HALF_LIVES = (math.inf, 3000.0, 300.0)  # completions; the first one as long as none has predicted better


@dataclass(frozen=True, slots=True, eq=False)
class Forgetting:
    """The half-lives with their scores so far.

    Attributes:
        scores: Of each half-life.
        learned: The hazards of all jobs, learned with each half-life from the first `seen` completions; empty at first.
        seen: Number of completions.
    """

    scores: tuple[float, ...] = (0.0,) * len(HALF_LIVES)
    learned: tuple[Hazards, ...] = ()
    seen: int = 0

    @property
    def half_life(self) -> float:
        """The one of the highest score, completions."""
        return HALF_LIVES[int(np.argmax(self.scores))]

    def after(self, ended: Floats, there: Floats) -> Forgetting:
        """Return the scores after further completions. O(jobs).

        Args:
            ended: Ages at which jobs ended, seconds, in the order in which they ended, those seen before too.
            there: Ages of the jobs in the cluster, seconds.
        """
        new = ended[self.seen :]
        gained = [hazards.log_likelihood(new) for hazards in self.learned] or [0.0] * len(HALF_LIVES)
        learned = (
            Hazards.of(ended, there, UNKNOWN, PRIOR_WEIGHT, counts(len(ended), half_life)) for half_life in HALF_LIVES
        )
        return Forgetting(tuple(map(sum, zip(self.scores, gained, strict=True))), tuple(learned), len(ended))


def counts(completed: int, half_life: float) -> Floats:
    """Return as how many jobs each completed job counts, in the order of completion; shape (completed,)."""
    ago = np.arange(completed, dtype=np.float64)[::-1]
    return np.asarray(0.5 ** (ago / half_life))


NOTHING_SEEN = Forgetting()
