"""The memory of a node that Slurm has not allocated: a donor lends no more, so that a job that starts finds its memory free.

`scontrol show node` reports RealMemory, MemSpecLimit and AllocMem. The limits of the jobs' memory cgroups on the node are read
several times a second and without a call to slurmctld. Where their sum was at least AllocMem they count alone, and scontrol
is called rarely; where sites have no such limits AllocMem counts, which is up to a minute old.
"""

from __future__ import annotations

import random
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import Unavailable, one_line
from tiresias.protocol.job_log import log_line

CGROUPS = (
    "/sys/fs/cgroup/memory/slurm*/uid_*/job_*/memory.limit_in_bytes",
    "/sys/fs/cgroup/system.slice/*slurmstepd.scope/job_*/memory.max",
)
UNLIMITED = 1 << 60  # v1 shows a number near 2**63
CGROUP_POLL_S = 0.2
NODE_POLL_S, RARE_NODE_POLL_S = 60.0, 600.0
JITTER = 0.2  # share of a wait: donors of many nodes call at different times
TIMEOUT_S = 10.0
_AGREES = 0.98  # cgroups round to pages
_FIELD = re.compile(r"\b(RealMemory|AllocMem|MemSpecLimit)=(\d+)")


class NodeRecord(NamedTuple):
    """What Slurm reports of a node, in bytes.

    Attributes:
        jobs_bytes: Memory for jobs: RealMemory without MemSpecLimit.
        allocated_bytes: What jobs have of it.
    """

    jobs_bytes: int
    allocated_bytes: int


def parsed_node(text: str) -> NodeRecord:
    """Return the record in the output of `scontrol show node`.

    Raises:
        Unavailable: It has no RealMemory.
    """
    found = {name: int(value) << 20 for name, value in _FIELD.findall(text)}
    if "RealMemory" not in found:
        raise Unavailable(f"no RealMemory in {text[:80]!r}")
    return NodeRecord(max(found["RealMemory"] - found.get("MemSpecLimit", 0), 0), found.get("AllocMem", 0))


def show_node(node: str) -> NodeRecord:
    """Ask Slurm.

    Raises:
        Unavailable: No answer within TIMEOUT_S, or it has no such node.
    """
    command = ["scontrol", "--oneliner", "show", "node", node]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"scontrol: {one_line(error)}") from None
    if done.returncode:
        raise Unavailable(f"scontrol show node {node}: {one_line((done.stderr or done.stdout).strip())}")
    return parsed_node(done.stdout)


def limited_by_cgroups(patterns: Sequence[str] = CGROUPS) -> int:
    """Return the sum of the limits of jobs' memory cgroups, in bytes; cgroups without a limit do not count.

    Raises:
        OSError: A cgroup ended meanwhile.
    """
    total = 0
    for pattern in patterns:
        for file in Path("/").glob(pattern.lstrip("/")):
            with suppress(ValueError):  # "max"
                limit = int(file.read_text())
                total += limit if limit < UNLIMITED else 0
    return total


class SlurmAllocation:
    """Polls in a thread, and reports how much memory Slurm has not allocated.

    Args:
        node: Slurm's name of this node.
        changed: Called by the thread with the bytes where they have changed.
        show: Asks Slurm.
        limited: Returns the limits of the cgroups.
    """

    def __init__(
        self,
        node: str,
        changed: Callable[[int], None],
        show: Callable[[str], NodeRecord] = show_node,
        limited: Callable[[], int] = limited_by_cgroups,
    ) -> None:
        self._node, self._changed, self._show, self._limited = node, changed, show, limited
        self._end = threading.Event()
        self._record: NodeRecord | None = None
        self._by_cgroups = False  # whether their limits count alone
        self._failed = False
        self._next_call = 0.0
        self._reported: int | None = None
        self._newest = 0  # of the cgroups
        self._thread = threading.Thread(target=self._run, name="slurm", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, also one whose call has no answer yet."""
        self._end.set()

    def _run(self) -> None:
        while not self._end.is_set():
            self.poll(time.monotonic())
            self._end.wait(CGROUP_POLL_S)

    def poll(self, now: float) -> None:
        """Ask what is due and report a change; `now` is in seconds."""
        with suppress(OSError):  # the one before counts until the next poll
            self._newest = self._limited()
        limited = self._newest
        if now >= self._next_call:
            self._call(limited)
            wait = RARE_NODE_POLL_S if self._by_cgroups else NODE_POLL_S
            self._next_call = now + wait * random.uniform(1 - JITTER, 1 + JITTER)
        if self._record is None:
            return
        allocated = limited if self._by_cgroups else max(limited, self._record.allocated_bytes)
        unallocated = max(self._record.jobs_bytes - allocated, 0)
        if unallocated != self._reported:
            self._reported = unallocated
            self._changed(unallocated)

    def _call(self, limited: int) -> None:
        try:
            self._record = record = self._show(self._node)
        except Unavailable as error:
            if not self._failed:
                effect = "what it reported last" if self._record else "most_mib alone"
                log_line(
                    f"remote memory: {effect} bounds what is lent: Slurm does not report node {self._node}: {error}"
                )
            self._failed = True
            return
        self._failed = False
        if record.allocated_bytes or limited:
            self._by_cgroups = limited >= record.allocated_bytes * _AGREES
