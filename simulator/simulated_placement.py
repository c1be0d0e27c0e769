"""The placement of simulated jobs and its effect on their speed, which the paper's simulator leaves out (section 5.3).

On the fewest nodes a model is as fast as in the trace. On more nodes, models with large tensors are slower (models.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.scheduler.model import Floats, Style
from tiresias.scheduler.place.learned.weights_file import PlacementWeights
from tiresias.scheduler.place.placements import PLACEMENTS, style_code
from tiresias.scheduler.place.speed_needs import NEVER_APART, SpeedNeeds
from tiresias.scheduler.stages import TRIAL_ONLY
from tiresias.simulator import models
from tiresias.simulator.learned_simulated_speeds import LearnedSimulatedSpeeds
from tiresias.simulator.simulated_node_speeds import SimulatedNodeSpeeds

PACKLIMIT = 0.4  # skew above which a job consolidates
WAIT_LIMIT_S = 300.0  # seconds that a consolidating job waits for the fewest nodes
BY_SKEW = "skew"
STYLES = (BY_SKEW, *(name for name in PLACEMENTS if name not in TRIAL_ONLY))  # there are no trial runs


@dataclass(frozen=True, slots=True)
class SimulatedPlacement:
    """How jobs are placed on nodes, and what a placement costs.

    Attributes:
        style: Placement style of all jobs. None: jobs whose largest tensor is more than `packlimit` of the model consolidate, the
            others spread.
        packlimit: Share of the largest tensor in the model.
        wait_limit: Seconds that a consolidating job waits for the fewest nodes, where `style` is None.
        effect: Whether a placement on more nodes than necessary slows a job down.
        trained: The network by which jobs of the style `learned` are placed; None: they are placed by least_interference.
        speeds: The speeds of the nodes; None: they are equal.
        learned_speeds: Those by which fastest_nodes places jobs; None: it is given `speeds`.
    """

    style: int | None = None
    packlimit: float = PACKLIMIT
    wait_limit: float = WAIT_LIMIT_S
    effect: bool = True
    trained: PlacementWeights | None = None
    speeds: SimulatedNodeSpeeds | None = None
    learned_speeds: LearnedSimulatedSpeeds | None = None

    @classmethod
    def named(cls, style: str, packlimit: float = PACKLIMIT, wait_limit: float = WAIT_LIMIT_S) -> SimulatedPlacement:
        """Return the placement of a style by its name, one of STYLES."""
        return cls(None if style == BY_SKEW else style_code(style), packlimit, wait_limit)

    def style_of(self, model: str) -> int:
        """Return the placement style of a model."""
        if self.style is not None:
            return self.style
        return Style.CONSOLIDATE if models.model(model).skew > self.packlimit else Style.SPREAD

    def wait_limit_of(self, model: str) -> float:
        """Return the seconds that a job of a model waits for the fewest nodes."""
        return self.wait_limit if self.style is None and self.style_of(model) is Style.CONSOLIDATE else 0.0

    @property
    def slowness(self) -> Floats | None:
        """The slowness of the nodes as jobs are placed by it; None: they are not."""
        known = self.learned_speeds or self.speeds
        return known.slowness if known and self.style == style_code("fastest_nodes") else None

    def speed_needs(self, model: str, gpus: int) -> SpeedNeeds:
        """Return what jobs of a model need of the speed of their nodes, as the controller knows it of jobs with a profile."""
        if self.learned_speeds:
            sensitivity = self.learned_speeds.sensitivity_of(model, gpus)
        else:
            sensitivity = self.speeds.sensitivity_of(model) if self.speeds else 1.0
        return SpeedNeeds(sensitivity, NEVER_APART if models.model(model).skew > self.packlimit else 1.0)

    def slowdown(self, model: str, gpus: int, nodes: int, gpus_per_node: int) -> float:
        """Return the seconds that a second of work takes on `nodes` nodes."""
        return models.slowdown(models.model(model), gpus, nodes, gpus_per_node) if self.effect else 1.0
