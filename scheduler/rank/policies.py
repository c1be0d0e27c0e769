"""The policies by their name in `policy.name`, each with its place.

POLICIES need no knowledge of the future, so the controller can run them; installed packages add to them (entry-point group
`tiresias.policies`: a class without arguments, or an object, with a method `rank`). The CLAIRVOYANT ones are the simulator's
baselines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiresias.scheduler.registry import Registry

if TYPE_CHECKING:
    from tiresias.scheduler.rank.policy import Policy

_HERE = "tiresias.scheduler.rank"


def _accept(name: str, package: str, found: Any) -> Policy:
    from tiresias.scheduler.rank.plugin_policy import accepted  # which imports the configuration, and that this module

    return accepted(name, package, found)


POLICIES: Registry[Policy] = Registry(
    "tiresias.policies",
    {
        "las": f"{_HERE}.las:LAS",
        "fifo": f"{_HERE}.fifo:FIFO",
        "best_effort": f"{_HERE}.fifo:BEST_EFFORT",
        "sf": f"{_HERE}.shortest_first:SMALLEST_FIRST",
        "time_sharing": f"{_HERE}.time_sharing:TIME_SHARING",
        "gittins": f"{_HERE}.gittins:GITTINS",
        "adaptive": f"{_HERE}.adaptive:ADAPTIVE",
        "continuous_las": f"{_HERE}.continuous_las:CONTINUOUS_LAS",
        "continuous_gittins": f"{_HERE}.continuous_gittins:CONTINUOUS_GITTINS",
    },
    _accept,
)
CLAIRVOYANT: Registry[Policy] = Registry(
    "",
    {
        "srtf": f"{_HERE}.shortest_first:SHORTEST_REMAINING_TIME",
        "srsf": f"{_HERE}.shortest_first:SHORTEST_REMAINING_SERVICE",
    },
)
