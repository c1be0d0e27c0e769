"""Whether the implementations that installed packages register can be used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiresias.scheduler.admit.rules import ADMISSION
from tiresias.scheduler.evict.eviction import EVICTIONS
from tiresias.scheduler.place.placements import PLACEMENTS
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.registry import Registry
from tiresias.scheduler.size.sizing import SIZINGS
from tiresias.scheduler.stages import TRACE_FORMATS
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine

_REGISTRIES: tuple[Registry[Any], ...] = (POLICIES, ADMISSION, SIZINGS, PLACEMENTS, EVICTIONS, TRACE_FORMATS)
_REMEDY = "fix or uninstall the package: the controller does not start with it where the configuration names it"


def findings() -> Iterator[Finding]:
    """One for each implementation that cannot be used, and one for all others together."""
    names = [name for registry in _REGISTRIES for name in registry.plugins()]
    problems = [problem for registry in _REGISTRIES for problem in registry.problems()]
    for problem in problems:
        yield Finding(Level.RISK, "plug-ins", problem, _REMEDY)
    if names and not problems:
        yield fine("plug-ins", f"usable: {', '.join(sorted(names))}")
