"""Check whether Slurm's topology, the features of nodes and their GRES agree on where GPUs are. Pure, except for `read`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiresias.slurm_plugin.backends.interface import Backend, SlurmNode, SlurmUnavailable
from tiresias.slurm_plugin.cluster import topology
from tiresias.slurm_plugin.cluster.finding import Finding, Level, named
from tiresias.slurm_plugin.cluster.islands import contradictions
from tiresias.slurm_plugin.config import Config

_ABOUT = "topology"


def read(config: Config, backend: Backend) -> Iterator[Finding]:
    """Read topology and nodes, and yield the contradictions."""
    try:
        switches, nodes = topology.from_slurm(backend.topology(config.placement.topology)), backend.snapshot().nodes
    except SlurmUnavailable as error:
        yield Finding(Level.RISK, _ABOUT, f"not checked: {error}", "repeat the command once Slurm answers")
        return
    yield from findings(config, switches, nodes)


def findings(config: Config, switches: Sequence[topology.Level], nodes: Sequence[SlurmNode]) -> Iterator[Finding]:
    """Yield the contradictions.

    Args:
        config: The configuration.
        switches: Slurm's topology; (): it has none.
        nodes: All nodes.
    """
    there = [node for node in nodes if node.gpus and set(node.partitions) & set(config.partitions)]
    name = config.placement.topology
    if name and not switches:
        words = f"Slurm has no topology {name}: features of nodes are used"
        yield Finding(Level.RISK, _ABOUT, words, "placement.topology: a name of topology.yaml, from Slurm 25.05 on")
    if out := [node.name for node in there if switches and node.name not in switches[0]]:
        words = f"no switch or block has {named(out)}: {'it counts' if len(out) == 1 else 'they count'} as one group"
        yield Finding(Level.RISK, _ABOUT, words, "add them to topology.conf or topology.yaml")
    yield from _of_features(there, config.placement.islands)


def _of_features(nodes: Sequence[SlurmNode], levels: Sequence[str]) -> Iterator[Finding]:
    """Yield each contradiction between the features of nodes and their GRES, with the nodes that have it."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        for text in contradictions(node, tuple(levels)):
            found.setdefault(text, []).append(node.name)
    for text, names in found.items():
        remedy = "the number of parts in Feature= of slurm.conf, or Gres= and Cores= of gres.conf"
        yield Finding(Level.RISK, _ABOUT, f"{named(names)}: {text}", remedy)
