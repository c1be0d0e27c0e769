"""Report the nodes of managed partitions whose GPUs are also given to jobs in parts (gres/shard, gres/mps)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tiresias.slurm_plugin.backends.interface import Backend, SlurmNode, SlurmUnavailable
from tiresias.slurm_plugin.cluster.finding import Finding, Level, named

_ABOUT = "shared GPUs"
_REMEDY = "nothing; or nodes of their own for such jobs (NodeName= in gres.conf), if jobs with whole GPUs wait too long"


def read(partitions: Collection[str], backend: Backend) -> Iterator[Finding]:
    """Read the nodes and yield the findings; none while Slurm does not answer, which another check reports."""
    try:
        yield from findings(partitions, backend.snapshot().nodes)
    except SlurmUnavailable:
        return


def findings(partitions: Collection[str], nodes: Sequence[SlurmNode]) -> Iterator[Finding]:
    """Yield a finding for each GRES that shares GPUs of managed nodes."""
    managed = [node for node in nodes if node.sharing and set(node.partitions) & set(partitions)]
    for gres in sorted({node.sharing for node in managed}):
        names = [node.name for node in managed if node.sharing == gres]
        words = f"{named(names)}: Slurm alone schedules jobs that ask for gres/{gres}; a GPU in parts is not free for others"
        yield Finding(Level.ADVICE, _ABOUT, words, _REMEDY)
