"""The speeds of simulated nodes and the sensitivity of jobs as a controller learns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiresias.scheduler.estimates.co_located_runs import OWNER_END
from tiresias.scheduler.model import Floats


@dataclass(frozen=True, slots=True, eq=False)
class LearnedSimulatedSpeeds:
    """The speeds by which `fastest_nodes` places simulated jobs that were learned, not given.

    Attributes:
        slowness: Of each node, shape (nodes,); None: nodes do not surely differ.
        sensitivity: By kind of job (`kind_of`); of a kind that is not here 1.
    """

    slowness: Floats | None
    sensitivity: Mapping[str, float] = field(default_factory=dict)

    def sensitivity_of(self, model: str, gpus: int) -> float:
        """Return the sensitivity of a kind of jobs."""
        return self.sensitivity.get(kind_of(model, gpus), 1.0)


def kind_of(model: str, gpus: int) -> str:
    """Return the kind of a job, as the controller names kinds; all jobs have one owner."""
    return f"u1{OWNER_END}{model.lower()} {gpus}"
