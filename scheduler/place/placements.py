"""Stage place: the styles of placement by their name, each with its place.

An installed package adds one as an entry point of the group `tiresias.placement`: a function
`(request: Request, gpus: int, nodes: CandidateNodes) -> Placement | None`. It returns rows of `nodes.fit` with GPUs, no more than
`nodes.fit` has there, or None where the job does not fit. A job stores its style as a code: the position in `PLACEMENTS`, of
which `Style` names the first; those of installed packages count from PLUGIN_CODES on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tiresias.scheduler import stages
from tiresias.scheduler.model import Request
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.plugin import Plugin
from tiresias.scheduler.registry import Registry

PLUGIN_CODES = 100

Place: TypeAlias = Callable[[Request, int, CandidateNodes], Placement | None]


def accepted(name: str, package: str, found: Any) -> Place:
    """The registered function with checked results. Raises PluginError for what is no function."""
    plugin = Plugin(PLACEMENTS.group, name, package, found)
    if not callable(found):
        raise plugin.error("it is no function")

    def place(request: Request, gpus: int, nodes: CandidateNodes) -> Placement | None:
        """Raises PluginError where the function fails or returns no placement for this request."""
        placement = plugin.guarded("its call", lambda: found(request, gpus, nodes))
        if placement is None:
            return None
        try:
            problem = _problem(request, gpus, nodes, placement)
        except (TypeError, ValueError):
            problem = "it returned no pairs of a row and a number of GPUs"
        if problem:
            raise plugin.error(problem)
        return tuple(sorted((int(node), int(share)) for node, share in placement))

    return place


PLACEMENTS: Registry[Place] = stages.PLACEMENTS


def uses_context(name: str) -> bool:
    """Return whether a style may read the context of a placement; it then honours `Request.gpus_per_node` itself."""
    return name in stages.WITH_CONTEXT or PLACEMENTS.is_plugin(name)


def uses_interference(name: str) -> bool:
    """Return whether a style may read the expected interference of the context."""
    return name in stages.WITH_INTERFERENCE or PLACEMENTS.is_plugin(name)


def style_code(name: str) -> int:
    """The code of a style in `Jobs.style`. Raises KeyError for an unknown name, PluginError where a package is at fault."""
    if name in PLACEMENTS.built_in:
        return [*PLACEMENTS.built_in].index(name)
    _ = PLACEMENTS[name]  # it can be imported
    return PLUGIN_CODES + sorted(PLACEMENTS.plugins()).index(name)


def style_name(code: int) -> str:
    """The name of a style code."""
    return [*PLACEMENTS.built_in][code] if code < PLUGIN_CODES else sorted(PLACEMENTS.plugins())[code - PLUGIN_CODES]


def _problem(request: Request, gpus: int, nodes: CandidateNodes, placement: Any) -> str:
    """What is wrong with a placement; "" for nothing."""
    shares = {int(node): int(share) for node, share in placement}
    if len(shares) != len(placement) or any(not 0 <= node < len(nodes.fit) for node in shares):
        return "it returned a node twice, or a row that is no node"
    if any(not 0 < share <= nodes.fit[node] for node, share in shares.items()) or sum(shares.values()) != gpus:
        return f"it returned more GPUs than a node has free, or {sum(shares.values())} GPUs for a job of {gpus}"
    if request.gpus_per_node and set(shares.values()) != {request.gpus_per_node}:
        return f"it returned not {request.gpus_per_node} GPUs on each node, as requested"
    if not request.min_nodes <= len(shares) <= (request.max_nodes or len(shares)):
        return f"it returned {len(shares)} nodes, which the job's request excludes"
    return ""
