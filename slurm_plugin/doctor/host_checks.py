"""Whether this host, slurmctld's and Slurm's versions go together."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

from tiresias.slurm_plugin.backends import scontrol_records
from tiresias.slurm_plugin.backends.protocol import Backend
from tiresias.slurm_plugin.cluster import sharing as shared_nodes
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine
from tiresias.slurm_plugin.doctor.slurm import output

OLDEST = (22, 5)
_APART = 2.0  # seconds; what Slurm says is in whole ones
_ADDRESS = re.compile(r"NodeAddr=(\S+) NodeHostName=(\S+)")


def version(backend: Backend) -> Finding:
    """The worker of pyslurm starts only where its X.Y is Slurm's: `why` tells that it did not."""
    said = backend.version()
    numbers = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    if numbers < OLDEST:
        return Finding(Level.BLOCKS, "Slurm", f"{said or 'its version is not known'}", "Slurm 22.05 or later")
    if backend.name == "commands" and backend.why:
        return Finding(
            Level.ADVICE,
            "Slurm",
            f"{said}, by its commands: {backend.why}",
            "pyslurm of the same X.Y as Slurm is lighter on slurmctld",
        )
    return fine("Slurm", f"{said}, by {backend.name}")


def clock() -> Finding:
    """sdiag says when slurmctld answered."""
    before = time.time()
    found = re.search(r"^sdiag output at .*\((\d+)\)", output("sdiag"), re.MULTILINE)
    if not found:
        return Finding(Level.ADVICE, "clock", "sdiag does not say what time it is for slurmctld", "compare by hand")
    theirs = int(found[1])
    apart = max(before - theirs - 1, theirs - time.time())
    if apart > _APART:
        return Finding(
            Level.RISK, "clock", f"slurmctld's is {apart:.0f} s apart from this host's", "NTP or PTP on both"
        )
    return fine("clock", "this host's and slurmctld's agree")


def several() -> bool:
    """Whether nodes are other machines than this one."""
    here = {"localhost", "127.0.0.1", socket.gethostname(), socket.gethostname().partition(".")[0]}
    nodes = _ADDRESS.findall(output("scontrol", "show", "node", "-o"))
    return any(not {address, host} & here for address, host in nodes)


def sharing(managed: tuple[str, ...]) -> Iterator[Finding]:
    """Whether other partitions come before the managed ones on their nodes."""
    text = output("scontrol", "--all", "show", "partition", "-o")
    found = shared_nodes.problems(shared_nodes.unprotected(scontrol_records.partitions(text), managed))
    for problem in found:
        yield Finding(Level.RISK, "PriorityTier", problem, shared_nodes.REMEDY)
    if not found:
        yield fine("PriorityTier", "no other partition comes before the managed ones on their nodes")


def partitions(managed: tuple[str, ...]) -> Iterator[Finding]:
    """Each of ours: there, and not for whole nodes only."""
    there = dict(re.findall(r"^PartitionName=(\S+)(.*)$", output("scontrol", "show", "partition", "-o"), re.MULTILINE))
    for name in managed:
        if name not in there:
            known = ", ".join(sorted(there)) or "none"
            yield Finding(
                Level.BLOCKS, "partitions", f"{name} is not in slurm.conf", f"set partitions to some of: {known}"
            )
        elif "OverSubscribe=EXCLUSIVE" in there[name]:
            yield Finding(
                Level.ADVICE,
                "partitions",
                f"{name}: jobs get whole nodes, whatever they ask for",
                "OverSubscribe=NO on it",
            )
        else:
            yield fine("partitions", f"{name} is there")
