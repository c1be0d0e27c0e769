"""Reports of the serving process: on the node for the job's owner, and for the controller in the job's control folder.

Two threads: the control folder is on a shared file system, which may hang. The thread that writes there has the rights of the job's
owner alone (the kernel's fsuid), so that no link of the owner leads it to a file of another user.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiresias.protocol import remote_memory_use
from tiresias.protocol.job_log import log_line
from tiresias.protocol.remote_memory_use import REPORT, RemoteMemoryUse
from tiresias.services.remote_memory.job_swap import kernel_calls
from tiresias.services.remote_memory.job_swap.owner_files import OwnerFiles
from tiresias.services.remote_memory.job_swap.use_publication import CREATE_AFTER_S, LAST_S, ReportedJob, publish

REPORT_S = 0.5
POLL_DIVISOR = 20.0  # a run is published again after its time divided by this
SHORTEST_S, LONGEST_S = 5.0, 60.0  # between two reports in the control folder


def use_of(job: ReportedJob, began: float, traffic: Mapping[str, Any]) -> RemoteMemoryUse:
    """Return the report of a swap.

    Args:
        job: The job.
        began: Epoch second.
        traffic: What the file and its store have counted.
    """
    read = int(traffic["pages_in"])
    return RemoteMemoryUse(
        node=job.node,
        began=began,
        time=time.time(),
        requested=job.requested,
        pages_out=int(traffic["pages_out"]),
        pages_in=read,
        from_donors=int(traffic.get("read_remote", 0)),
        from_queue=int(traffic.get("read_queue", 0)),
        from_disk=int(traffic.get("read_disk", read)),
        seconds=float(traffic["seconds"]),
        lent=dict(list(traffic.get("lent", {}).items())[: remote_memory_use.MOST_DONORS]),
    )


class UseReports:
    """Writes the reports until the process ends.

    Args:
        job: Of what.
        files: The job's files on this node.
        traffic: Returns what was counted until now.
    """

    def __init__(self, job: ReportedJob, files: OwnerFiles, traffic: Callable[[], Mapping[str, Any]]) -> None:
        self._job, self._files, self._traffic = job, files, traffic
        self._began = time.time()
        self._newest: RemoteMemoryUse | None = None
        self._end, self._last = threading.Event(), threading.Event()

    def start(self) -> None:
        """Start the threads."""
        threading.Thread(target=self._report, name="swap reports", daemon=True).start()
        if self._job.control:
            threading.Thread(target=self._publish, name="swap publication", daemon=True).start()

    def end(self) -> None:
        """Write the last report; return in LAST_S, also where the shared file system hangs."""
        self._write()
        self._end.set()
        if self._job.control:
            self._last.wait(LAST_S)

    def _report(self) -> None:
        self._write()
        while not self._end.wait(REPORT_S):
            self._write()

    def _write(self) -> None:
        use = self._newest = use_of(self._job, self._began, self._traffic())
        with suppress(OSError):
            self._files.put(REPORT, json.dumps({"node": use.node, **use.stated()}))

    def _publish(self) -> None:
        folder = self._job.folder()
        try:
            kernel_calls.act_for_user(*self._job.owner)
        except OSError as error:
            log_line(f"remote memory: job {self._job.job}: its use is not published: {error}")
            self._last.set()
            return
        wait = SHORTEST_S
        while not self._end.wait(wait):
            self._put(folder, creates=time.time() - self._began > CREATE_AFTER_S)
            wait = min(max((time.time() - self._began) / POLL_DIVISOR, SHORTEST_S), LONGEST_S)
        self._put(folder, creates=True)
        self._last.set()

    def _put(self, folder: Path, creates: bool) -> None:
        if self._newest:
            publish(folder, self._newest, self._job.owner.uid if creates else None)
