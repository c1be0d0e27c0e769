"""Lines in a job's output about its remote memory (`tsbatch --remote-mem`): which nodes refused it, and at the end what moved."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tiresias.protocol import environment, remote_memory_use
from tiresias.protocol.job_log import log_line
from tiresias.protocol.job_memory_reports import JobMemoryReports, refusal_line
from tiresias.protocol.remote_memory_use import NODE_FOLDER, RemoteMemoryUse, traffic_words
from tiresias.wrappers.job import Job

POLL_S = 2.0  # between polls for refusals of other nodes
OTHERS_S = 60.0  # for which they are polled; later ones are found at the end


class RemoteMemoryNotes:
    """The lines of one run.

    Args:
        job: The job.
        env: Its environment.
        run: The folder of the node's own files.
    """

    def __init__(self, job: Job, env: Mapping[str, str], run: Path = Path(NODE_FOLDER)) -> None:
        self._reports = JobMemoryReports.of_environment(job.control, env, time.time(), run)
        self._logged: set[str] = set()
        several = env.get("SLURM_JOB_NUM_NODES", "1") != "1"
        requests = bool(env.get(environment.REMOTE_MEMORY)) or self._reports.files.exists()
        self._until = time.monotonic() + OTHERS_S if several and requests else -math.inf
        self._due = time.monotonic()

    def begin(self) -> None:
        """Log why nodes have refused the job's remote memory, and have the controller show it of this one; nothing otherwise."""
        if reason := self._reports.refusal():
            self._log_refusal(self._reports.node, reason)
            if self._reports.control:
                began, now = self._reports.began, time.time()
                with suppress(OSError):
                    remote_memory_use.write(
                        self._reports.control, RemoteMemoryUse(self._reports.node, began, now, refused=reason)
                    )
        self.poll()

    def poll(self) -> None:
        """Log the refusals of other nodes that are new, where that is due."""
        now = time.monotonic()
        if self._due <= now <= self._until:
            self._due = now + POLL_S
            self._log_refusals(self._reports.published())

    def wait(self) -> float:
        """Return the seconds until poll() is due; inf: it is not."""
        now = time.monotonic()
        return max(self._due - now, 0.0) if now <= self._until else math.inf

    def end(self) -> None:
        """Log what was written and read; nothing where no node reports any."""
        uses = self._reports.uses()
        self._log_refusals(uses)
        if any(not each.refused for each in uses):
            log_line(f"remote memory: {traffic_words(uses)}")

    def _log_refusals(self, uses: list[RemoteMemoryUse]) -> None:
        for each in uses:
            if each.refused:
                self._log_refusal(each.node, each.refused)

    def _log_refusal(self, node: str, reason: str) -> None:
        if node not in self._logged:
            self._logged.add(node)
            log_line(refusal_line(node, reason))
