"""Checks of this host, slurmctld's clock and Slurm's version."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

from tiresias.slurm_plugin.backends import processes, scontrol_records
from tiresias.slurm_plugin.backends.interface import Backend, SlurmUnavailable
from tiresias.slurm_plugin.cluster import sharing as shared_nodes
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine

OLDEST = (22, 5)
_COMMAND_TIMEOUT_S = 20.0
_MAX_CLOCK_DIFFERENCE_S = 2.0  # sdiag prints whole seconds
_ADDRESS = re.compile(r"NodeAddr=(\S+) NodeHostName=(\S+)")


def version(backend: Backend) -> Finding:
    """Check Slurm's version.

    The worker of pyslurm starts only with Slurm of the same X.Y: `why` contains the reason if it did not start.
    """
    found = backend.version()
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if numbers < OLDEST:
        return Finding(Level.BLOCKS, "Slurm", f"{found or 'its version is not known'}", "Slurm 22.05 or later")
    if backend.name == "commands" and backend.why:
        return Finding(
            Level.ADVICE,
            "Slurm",
            f"{found}, by its commands: {backend.why}",
            "pyslurm of the same X.Y as Slurm causes less load on slurmctld",
        )
    return fine("Slurm", f"{found}, by {backend.name}")


def clock() -> Finding:
    """Compare this host's clock with slurmctld's, which sdiag prints."""
    before = time.time()
    found = re.search(r"^sdiag output at .*\((\d+)\)", output("sdiag"), re.MULTILINE)
    if not found:
        return Finding(Level.ADVICE, "clock", "sdiag does not print slurmctld's time", "compare the clocks manually")
    remote = int(found[1])
    apart = max(before - remote - 1, remote - time.time())
    if apart > _MAX_CLOCK_DIFFERENCE_S:
        return Finding(
            Level.RISK, "clock", f"slurmctld's differs by {apart:.0f} s from this host's", "NTP or PTP on both"
        )
    return fine("clock", "this host's and slurmctld's agree")


def several() -> bool:
    """Return whether nodes are other machines than this one."""
    here = {"localhost", "127.0.0.1", socket.gethostname(), socket.gethostname().partition(".")[0]}
    nodes = _ADDRESS.findall(output("scontrol", "show", "node", "-o"))
    return any(not {address, host} & here for address, host in nodes)


def sharing(managed: tuple[str, ...]) -> Iterator[Finding]:
    """Check whether other partitions have priority over the managed ones on their nodes."""
    text = output("scontrol", "--all", "show", "partition", "-o")
    found = shared_nodes.problems(shared_nodes.unprotected(scontrol_records.partitions(text), managed))
    for problem in found:
        yield Finding(Level.RISK, "PriorityTier", problem, shared_nodes.REMEDY)
    if not found:
        yield fine("PriorityTier", "no other partition has priority over the managed ones on their nodes")


def partitions(managed: tuple[str, ...]) -> Iterator[Finding]:
    """Check that each managed partition exists and does not allocate whole nodes only."""
    existing = dict(
        re.findall(r"^PartitionName=(\S+)(.*)$", output("scontrol", "show", "partition", "-o"), re.MULTILINE)
    )
    for name in managed:
        if name not in existing:
            known = ", ".join(sorted(existing)) or "none"
            yield Finding(
                Level.BLOCKS, "partitions", f"{name} is not in slurm.conf", f"set partitions to any of: {known}"
            )
        elif "OverSubscribe=EXCLUSIVE" in existing[name]:
            yield Finding(
                Level.ADVICE,
                "partitions",
                f"{name}: jobs get whole nodes, whatever they request",
                "OverSubscribe=NO on it",
            )
        else:
            yield fine("partitions", f"{name} exists")


def output(*words: str) -> str:
    """Return the output of one of Slurm's commands, "" if it fails: a failure is no finding by itself."""
    try:
        done = processes.run(words, _COMMAND_TIMEOUT_S)
    except SlurmUnavailable:
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""
