"""Check whether placement.part_types has an effect: Slurm's release, and the nodes whose parts the types name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiresias.slurm_plugin.backends.interface import Backend, SlurmNode
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine
from tiresias.slurm_plugin.cluster.part_types import TYPES_CHANGE_FROM, named_parts, types_can_change

_ABOUT = "part_types"
_GRES = "Gres=gpu:s0:4,gpu:s1:4 with the types of the list, in its order, and as many GPUs of each"


def findings(backend: Backend, part_types: Sequence[str]) -> Iterator[Finding]:
    """Yield nothing where the list is empty, else one finding."""
    if part_types:
        yield finding(backend.version(), backend.snapshot().nodes, part_types)


def finding(version: str, nodes: Sequence[SlurmNode], part_types: Sequence[str]) -> Finding:
    """Return whether starts select parts of some of the nodes."""
    if not types_can_change(version):
        oldest = "{}.{:02}".format(*TYPES_CHANGE_FROM)
        words = f"Slurm {version} does not change the type of a job's GPUs: no parts of nodes are selected"
        return Finding(Level.RISK, _ABOUT, words, f"Slurm {oldest} or later, or placement.part_types = []")
    named = [node.name for node in nodes if named_parts(node, part_types) > 1]
    if not named:
        return Finding(Level.RISK, _ABOUT, f"no node has GPUs of the types {', '.join(part_types)}", _GRES)
    return fine(_ABOUT, f"starts select the parts of {len(named)} of {len(nodes)} nodes")
