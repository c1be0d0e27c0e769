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
from typing import Any, NamedTuple

from tiresias.protocol import control, remote_memory_use
from tiresias.protocol.job_log import log_line
from tiresias.protocol.remote_memory_use import REPORT, RemoteMemoryUse
from tiresias.services.remote_memory.job_swap import kernel_calls
from tiresias.services.remote_memory.job_swap.owner_files import FileOwner, OwnerFiles

REPORT_S = 0.5
POLL_DIVISOR = 20.0  # a run is published again after its time divided by this
SHORTEST_S, LONGEST_S = 5.0, 60.0  # between two reports in the control folder
LAST_S = 3.0  # the longest wait for the last one


class ReportedJob(NamedTuple):
    """Of what the reports are.

    Attributes:
        name: The job's id, as squeue prints it.
        node: Slurm's name of this node.
        owner: The job's owner.
        requested: Bytes on this node.
        control: Root of the control folders; None: nothing is published.
    """

    name: str
    node: str
    owner: FileOwner
    requested: int
    control: Path | None

    @property
    def folder(self) -> Path | None:
        """The job's control folder."""
        return control.job_folder(self.control, self.owner.uid, self.name) if self.control else None


def job_name(environment: Mapping[str, str]) -> str:
    """Return the id of a prolog's job as squeue prints it."""
    array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else environment.get("SLURM_JOB_ID", "")


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
        if self._job.folder:
            threading.Thread(
                target=self._publish, args=(self._job.folder,), name="swap publication", daemon=True
            ).start()

    def end(self) -> None:
        """Write the last report; return in LAST_S, also where the shared file system hangs."""
        self._write()
        self._end.set()
        if self._job.folder:
            self._last.wait(LAST_S)

    def _report(self) -> None:
        self._write()
        while not self._end.wait(REPORT_S):
            self._write()

    def _write(self) -> None:
        use = self._newest = use_of(self._job, self._began, self._traffic())
        with suppress(OSError):
            self._files.put(REPORT, json.dumps({"node": use.node, **use.stated()}))

    def _publish(self, folder: Path) -> None:
        try:
            kernel_calls.act_for_user(*self._job.owner)
        except OSError as error:
            log_line(f"remote memory: job {self._job.name}: its use is not published: {error}")
            self._last.set()
            return
        wait = SHORTEST_S
        while not self._end.wait(wait):
            self._put(folder)
            wait = min(max((time.time() - self._began) / POLL_DIVISOR, SHORTEST_S), LONGEST_S)
        self._put(folder)
        self._last.set()

    def _put(self, folder: Path) -> None:
        if self._newest:
            with suppress(OSError):  # a job without a control folder, or one that is away
                remote_memory_use.write(folder, self._newest)
