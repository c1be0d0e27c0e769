"""Lines in a job's output about its remote memory (`tsbatch --remote-mem`): why it has none, and at the end what moved.

The prolog leaves files of the job on each node (protocol/remote_memory_use.py). The supervisor reads those of the first node; the
reports of the other nodes are in the control folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tiresias.protocol import remote_memory_use
from tiresias.protocol.job_log import log_line
from tiresias.protocol.remote_memory_use import NODE_FOLDER, REFUSED, REPORT, RemoteMemoryUse, folder_of, traffic_words
from tiresias.wrappers.job import Job

_MOST_BYTES = 65536
WAIT_S = 1.5  # for a report of what was moved until the end; there are two a second
_POLL_S = 0.05
CLOCKS_S = 60.0  # by which the prologs may have begun before this run, and clocks may differ


class RemoteMemoryNotes:
    """The lines of one run.

    Args:
        job: The job.
        env: Its environment.
        run: The folder of the node's own files.
    """

    def __init__(self, job: Job, env: Mapping[str, str], run: Path = Path(NODE_FOLDER)) -> None:
        self._job = job
        self._files = folder_of(run, env.get("SLURM_JOB_ID") or "none")
        self._began = time.time()
        self._node = env.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]

    def begin(self) -> None:
        """Log why this node has refused the job's remote memory, and have the controller show it; nothing otherwise."""
        if reason := _text(self._files / REFUSED).strip():
            log_line(f"remote memory: this job runs without it on node {self._node}: {reason}")
            if self._job.control:
                with suppress(OSError):
                    remote_memory_use.write(
                        self._job.control, RemoteMemoryUse(self._node, self._began, time.time(), refused=reason)
                    )

    def end(self) -> None:
        """Log what was written and read; nothing where no node reports any."""
        uses = self._uses()
        if any(not each.refused for each in uses):
            log_line(f"remote memory: {traffic_words(uses)}")

    def _uses(self) -> Sequence[RemoteMemoryUse]:
        """Return the reports of all nodes: this node's own one is newer than the published one."""
        published = remote_memory_use.read_all(self._job.control, os.getuid()) if self._job.control else []
        found = [each for each in published if each.began >= self._began - CLOCKS_S]  # of this run
        own = self._newest_of_node()
        return [own, *(each for each in found if each.node != self._node)] if own else found

    def _newest_of_node(self) -> RemoteMemoryUse | None:
        """Return this node's report, one that is newer than this call where it arrives in time; None without one."""
        began, deadline = time.time(), time.monotonic() + WAIT_S
        while (found := self._of_node()) and found.time < began and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return found

    def _of_node(self) -> RemoteMemoryUse | None:
        try:
            content = json.loads(_text(self._files / REPORT) or "null")
        except (ValueError, RecursionError):
            return None
        return remote_memory_use.parsed(self._node, content) if isinstance(content, dict) else None


def _text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_MOST_BYTES)
    except OSError:
        return ""
