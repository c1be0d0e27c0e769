"""The policies of a replay by name: those that the controller runs, and unmodified Slurm. Pure.

NAME[+PLACEMENT][+reports]: a policy of the controller, with all jobs in one placement, and with jobs that report their progress.
slurm-fifo and slurm-backfill: unmodified Slurm.
"""

from __future__ import annotations

from typing import NamedTuple

from tiresias.errors import UsageError
from tiresias.scheduler.stages import POLICIES
from tiresias.simulator.simulated_placement import BY_SKEW, STYLES

REPORTS = "reports"
STOCK_POLICIES = {"slurm-fifo": "Slurm FIFO", "slurm-backfill": "Slurm backfill"}
_OWN_LABELS = {"las": "Tiresias-L", "gittins": "Tiresias-G", "fifo": "Tiresias, FIFO"}
_STYLES = tuple(style for style in STYLES if style != BY_SKEW)


class ReplayPolicy(NamedTuple):
    """A policy of the controller in a replay.

    Attributes:
        name: The policy as the controller's configuration names it; packages of this host are not installed in the cluster.
        style: Placement of all jobs; BY_SKEW: by their models.
        reports: Whether jobs report their progress.
    """

    name: str
    style: str = BY_SKEW
    reports: bool = False

    @classmethod
    def parsed(cls, text: str) -> ReplayPolicy:
        """Return the policy of this name, one of MANAGED_POLICIES."""
        name, *parts = text.split("+")
        styles = [part for part in parts if part != REPORTS]
        return cls(name, styles[0] if styles else BY_SKEW, REPORTS in parts)

    @property
    def text(self) -> str:
        """The name of this policy in a replay."""
        style = [] if self.style == BY_SKEW else [self.style]
        return "+".join([self.name, *style, *([REPORTS] if self.reports else [])])

    @property
    def label(self) -> str:
        """The heading of its column."""
        words = [_OWN_LABELS.get(self.name) or f"Tiresias, {_words(self.name)}"]
        words += [] if self.style == BY_SKEW else [_words(self.style)]
        return ", ".join([*words, *([REPORTS] if self.reports else [])])


def _words(name: str) -> str:
    return name.replace("_", " ")


_MANAGED = [
    ReplayPolicy(name, style, reports)
    for reports in (False, True)
    for style in (BY_SKEW, *_STYLES)
    for name in POLICIES.built_in
]
MANAGED_POLICIES = {policy.text: policy.label for policy in _MANAGED}
LABELS = MANAGED_POLICIES | STOCK_POLICIES
SHOWN = (*POLICIES.built_in, *STOCK_POLICIES)


def check_names(names: list[str]) -> None:
    """Raises UsageError for a name that no policy has."""
    for name in names:
        if name not in LABELS:
            raise UsageError(
                f"no policy {name!r}: use any of {', '.join(SHOWN)}; after a policy of the controller, +{REPORTS} (jobs report "
                f"their progress) or, for all jobs in one placement, + and one of {', '.join(_STYLES)}, such as las+random"
            )
