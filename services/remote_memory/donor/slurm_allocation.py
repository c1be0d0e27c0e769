"""The memory of a node that Slurm has not allocated: a donor lends no more, so that a job that starts finds its memory free.

`scontrol show node` reports RealMemory, MemSpecLimit and AllocMem. The limits of the jobs' memory cgroups on the node are read
several times a second and without a call to slurmctld. Where their sum was at least AllocMem they count alone, and scontrol
is called rarely; where sites have no such limits AllocMem counts, which is up to a minute old. A node whose State takes it out of
use (WITHDRAWN) lends nothing.
"""

from __future__ import annotations

import os
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
_EFFECTS = {True: ": all slabs are given back", False: ""}
_AGREES = 0.98  # cgroups round to pages
_FIELD = re.compile(r"\b(RealMemory|AllocMem|MemSpecLimit)=(\d+)")
_STATE = re.compile(r"\bState=(\S+)")
WITHDRAWN = frozenset({
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINTENANCE", "MAINT", "REBOOT_ISSUED", "REBOOT_REQUESTED",
    "POWER_DOWN", "POWERING_DOWN", "POWERED_DOWN",
})  # fmt: skip


class NodeRecord(NamedTuple):
    """What Slurm reports of a node, in bytes.

    Attributes:
        jobs_bytes: Memory for jobs: RealMemory without MemSpecLimit.
        allocated_bytes: What jobs have of it.
        withdrawn: The state that takes the node out of use; "": it is in use.
    """

    jobs_bytes: int
    allocated_bytes: int
    withdrawn: str = ""


def parsed_node(text: str) -> NodeRecord:
    """Return the record in the output of `scontrol show node`.

    Raises:
        Unavailable: It has no RealMemory.
    """
    found = {name: int(value) << 20 for name, value in _FIELD.findall(text)}
    if "RealMemory" not in found:
        raise Unavailable(f"no RealMemory in {text[:80]!r}")
    jobs = max(found["RealMemory"] - found.get("MemSpecLimit", 0), 0)
    return NodeRecord(jobs, found.get("AllocMem", 0), withdrawn_by(text))


def withdrawn_by(text: str) -> str:
    """Return the states of a node in the output of `scontrol show node` that take it out of use; "" where it is in use."""
    found = _STATE.search(text)
    states = re.findall(r"[A-Z_]+", found[1]) if found else []
    return "+".join(each for each in states if each in WITHDRAWN)


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
    """Return the sum of the limits of jobs' memory cgroups, in bytes; those without a limit or without a process do not count.

    Slurm leaves the cgroup of a job that is cancelled while it starts (26.05 with cgroup v1). A job without a process, as of salloc
    alone, counts in AllocMem.

    Raises:
        OSError: A cgroup ended meanwhile.
    """
    total = 0
    for pattern in patterns:
        for file in Path("/").glob(pattern.lstrip("/")):
            with suppress(ValueError):  # "max"
                limit = int(file.read_text())
                total += limit if limit < UNLIMITED and _has_processes(file.parent) else 0
    return total


def _has_processes(folder: Path) -> bool:
    return any((Path(path) / "cgroup.procs").read_text() for path, _, _ in os.walk(folder))


class SlurmAllocation:
    """Polls in a thread, and reports how much memory Slurm has not allocated.

    Args:
        node: Slurm's name of this node.
        changed: Called by the thread with the bytes where they have changed.
        show: Asks Slurm.
        limited: Returns the limits of the cgroups.
        poll_s: Seconds between two calls of Slurm at most.
    """

    def __init__(
        self,
        node: str,
        changed: Callable[[int], None],
        show: Callable[[str], NodeRecord] = show_node,
        limited: Callable[[], int] = limited_by_cgroups,
        poll_s: float = RARE_NODE_POLL_S,
    ) -> None:
        self._node, self._changed, self._show, self._limited = node, changed, show, limited
        self._poll_s = poll_s
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
            rarely = self._by_cgroups and not (self._record and self._record.withdrawn)
            wait = self._poll_s if rarely else min(NODE_POLL_S, self._poll_s)
            self._next_call = now + wait * random.uniform(1 - JITTER, 1 + JITTER)
        if self._record is None:
            return
        unallocated = self._unallocated(self._record, limited)
        if unallocated != self._reported:
            self._reported = unallocated
            self._changed(unallocated)

    def _unallocated(self, record: NodeRecord, limited: int) -> int:
        allocated = limited if self._by_cgroups else max(limited, record.allocated_bytes)
        return 0 if record.withdrawn else max(record.jobs_bytes - allocated, 0)

    def _call(self, limited: int) -> None:
        before = self._record.withdrawn if self._record else ""
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
        if record.withdrawn != before:
            log_line(
                f"remote memory: node {self._node} is {record.withdrawn or 'in use again'}{_EFFECTS[bool(record.withdrawn)]}"
            )
        if record.allocated_bytes or limited:
            self._by_cgroups = limited >= record.allocated_bytes * _AGREES
