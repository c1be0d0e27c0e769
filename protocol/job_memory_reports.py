"""The reports on one job's remote memory as a process of the job's owner reads them, on a node of the job.

The prolog and the serving process of each node leave files for the owner on that node, and publish them in the job's control folder
(remote_memory_use.py), where those of the other nodes are found.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import remote_memory_use
from tiresias.protocol.remote_memory_use import NODE_FOLDER, REFUSED, REPORT, RemoteMemoryUse, folder_of

WAIT_S = 1.5  # for a report of what was moved until the end; there are two a second
CLOCKS_S = 60.0  # by which the prologs may have begun before this run, and clocks may differ
_POLL_S = 0.05
_MOST_BYTES = 65536


class JobMemoryReports(NamedTuple):
    """The reports of one run.

    Attributes:
        control: The job's control folder; None: it has none.
        files: The folder with the owner's files on this node.
        node: Slurm's name of this node.
        began: Epoch second at which the run began.
    """

    control: Path | None
    files: Path
    node: str
    began: float

    @classmethod
    def of_environment(
        cls, control: Path | None, env: Mapping[str, str], began: float, run: Path = Path(NODE_FOLDER)
    ) -> JobMemoryReports:
        """Return the reports of the job of an environment."""
        node = env.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
        return cls(control, folder_of(run, env.get("SLURM_JOB_ID") or "none"), node, began)

    def refusal(self) -> str:
        """Return why this node has refused the job's request; "" where it has not."""
        return _text(self.files / REFUSED).strip()

    def published(self) -> list[RemoteMemoryUse]:
        """Return what the nodes have published in this run."""
        found = remote_memory_use.read_all(self.control, os.getuid()) if self.control else []
        return [each for each in found if each.began >= self.began - CLOCKS_S]

    def uses(self) -> list[RemoteMemoryUse]:
        """Return the reports of all nodes: this node's own one is newer than the published one."""
        found, own = self.published(), self._newest_of_node()
        return [own, *(each for each in found if each.node != self.node)] if own else found

    def _newest_of_node(self) -> RemoteMemoryUse | None:
        """Return this node's report, one that is newer than this call where it arrives in time; None without one."""
        began, deadline = time.time(), time.monotonic() + WAIT_S
        while (found := self._of_node()) and found.time < began and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return found

    def _of_node(self) -> RemoteMemoryUse | None:
        try:
            content = json.loads(_text(self.files / REPORT) or "null")
        except (ValueError, RecursionError):
            return None
        return remote_memory_use.parsed(self.node, content) if isinstance(content, dict) else None


def refusal_line(node: str, reason: str) -> str:
    """Return the line of a job's output about a node that has refused its request."""
    return f"remote memory: this job runs without it on node {node}: {reason}"


def _text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_MOST_BYTES)
    except OSError:
        return ""
