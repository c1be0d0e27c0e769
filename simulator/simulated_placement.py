"""Where simulated jobs sit, and what that does to their speed: what the paper's simulator leaves out (section 5.3).

A model is as fast as its trace says on the fewest nodes; on more of them one with large tensors is slower (models.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.scheduler.model import Style
from tiresias.simulator import models

PACKLIMIT, PATIENCE = 0.4, 300.0
BY_SKEW = "skew"
STYLES: dict[str, Style | None] = {BY_SKEW: None} | {
    style.name.lower(): style
    for style in Style
    if style is not Style.APART  # there are no trial runs
}


@dataclass(frozen=True, slots=True)
class SimulatedPlacement:
    """style: of all jobs; None: those whose largest tensor is more than `packlimit` of the model consolidate, the others spread.
    patience: seconds that the former wait for the fewest nodes. effect: a bad placement costs speed."""

    style: Style | None = None
    packlimit: float = PACKLIMIT
    patience: float = PATIENCE
    effect: bool = True

    def style_of(self, model: str) -> Style:
        if self.style is not None:
            return self.style
        return Style.CONSOLIDATE if models.model(model).skew > self.packlimit else Style.SPREAD

    def patience_of(self, model: str) -> float:
        """Seconds."""
        return self.patience if self.style is None and self.style_of(model) is Style.CONSOLIDATE else 0.0

    def slowdown(self, model: str, gpus: int, nodes: int, gpus_per_node: int) -> float:
        """Seconds on so many nodes for a second on the fewest."""
        return models.slowdown(models.model(model), gpus, nodes, gpus_per_node) if self.effect else 1.0
