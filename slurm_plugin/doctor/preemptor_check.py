"""Report the partitions that mode assist manages and in which Slurm preempts jobs by itself: then there are two preemptors.

With preempt/partition_prio a partition may have its own PreemptMode. With preempt/qos each QOS states which others it preempts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tiresias.slurm_plugin.cluster.finding import Finding, Level
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.doctor import host_checks

_ABOUT = "two preemptors"
_BY_QOS = "preempt/qos"
_BY_PARTITION = ("preempt/partition_prio", _BY_QOS)
_PARTITION = re.compile(r"^PartitionName=(\S+)(.*)$", re.MULTILINE)
_MODE = re.compile(r"(?:^| )PreemptMode=(\S+)")
_REMEDIES = {
    True: "no Preempt= in the QOS of these partitions (sacctmgr modify qos), or the partitions left out of `partitions`",
    False: "PreemptMode=OFF on these partitions",
}


def read(config: Config, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Read the partitions, and yield the finding of mode assist."""
    if config.assists:
        yield from findings(
            config.partitions, settings, host_checks.output("scontrol", "--all", "show", "partition", "-o")
        )


def findings(managed: tuple[str, ...], settings: Mapping[str, str], partitions: str) -> Iterator[Finding]:
    """Yield a finding where Slurm may preempt jobs of managed partitions.

    Args:
        managed: Names of the managed partitions.
        settings: Output of `scontrol show config`, by name.
        partitions: Output of `scontrol show partition -o`.
    """
    plugin = settings.get("PreemptType", "")
    modes = {name: _mode(words) for name, words in _PARTITION.findall(partitions)}
    preempting = [name for name in managed if modes.get(name, "OFF") not in ("OFF", "GANG")]
    if plugin in _BY_PARTITION and preempting:
        preemptor = f"{plugin} ({modes[preempting[0]]}) preempts jobs of {', '.join(preempting)}"
        words = f"{preemptor} beside mode assist, without their checkpoints"
        yield Finding(Level.RISK, _ABOUT, words, _REMEDIES[plugin == _BY_QOS])


def _mode(words: str) -> str:
    found = _MODE.search(words)
    return found[1] if found else "OFF"
