"""The process that serves a job's swap: it makes the device, serves its pages, and ends when the kernel has released the device.

What it makes ends with it or is found in the kernel's own tables: the mount is in mounts of its own, and the loop device has the
job's name. It holds a lock of <run>/<job>.lock while it lives, so that its pid is known without a pid file.

The prolog may be killed before that lock is held; the epilog then finds no process. So the prolog makes the file, and this process
ends where the file is gone, or where the prolog has ended by the time the lock is held: an epilog that is later than the prolog
removes the file, finds the lock, or finds nothing that still comes.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.errors import Unavailable
from tiresias.protocol.job_log import log_line
from tiresias.services.remote_memory.job_swap import (
    fuse_protocol,
    job_cgroup,
    kernel_calls,
    loop_devices,
    swap_area,
    zram_devices,
)
from tiresias.services.remote_memory.job_swap.fuse_file import FuseFile, open_device
from tiresias.services.remote_memory.job_swap.job_cgroup import JobCgroup
from tiresias.services.remote_memory.job_swap.owner_files import OwnerFiles
from tiresias.services.remote_memory.job_swap.page_store import PageStore
from tiresias.services.remote_memory.job_swap.use_publication import ReportedJob
from tiresias.services.remote_memory.job_swap.use_reports import UseReports

STACK_BYTES = 512 << 10  # of a thread: all of it is locked in memory
READY = b"ready\n"
FILE_SYSTEM = "fuse.tiresias-job-swap"
_LOCK = struct.Struct("hhqqi4x")  # struct flock


class SwapOrder(NamedTuple):
    """What to serve.

    Attributes:
        job: The job's id.
        swap_bytes: Size of the swap area.
        zram_bytes: Size of the zram device that is filled first; 0: none.
        run: Folder of the node's own files.
        cgroups: Patterns of the job's cgroup.
        reported: Of what the reports are.
    """

    job: str
    swap_bytes: int
    zram_bytes: int
    run: Path
    cgroups: tuple[str, ...]
    reported: ReportedJob


def serve(order: SwapOrder, make_store: Callable[[], PageStore], ready: Callable[[], None]) -> None:
    """Serve until the device is released.

    Args:
        order: What to serve.
        make_store: Creates the store, after this process is protected.
        ready: Called when the kernel swaps on the device.

    Raises:
        Unavailable: The job has a swap already, or its prolog has ended.
        OSError: A right or a part of the kernel is missing.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the device must be released first: removal.py
    threading.stack_size(STACK_BYTES)
    lock = _locked(order.run / f"{order.job}.lock")
    for problem in _protect():
        log_line(f"remote memory: job {order.job}: {problem}")
    store = make_store()
    file = _start_swap(order, store)
    reports = _reports(order, lambda: {**file.traffic(), **store.statistics()})
    reports.start()
    ready()
    threading.Thread(target=_keep_limits, args=(order,), name="swap limits", daemon=True).start()
    file.join()
    reports.end()
    _write_traffic(order, {**file.traffic(), **store.statistics()})
    store.close()
    os.close(lock)


def lock_holder(path: Path) -> int:
    """Return the pid of the process that holds the lock of a job; 0 if none does."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        found = fcntl.fcntl(file, fcntl.F_GETLK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    finally:
        os.close(file)
    kind, _, _, _, pid = _LOCK.unpack(found)
    return 0 if kind == fcntl.F_UNLCK else int(pid)


def create_lock(path: Path) -> None:
    """Create the file of the lock, in the prolog. Raises OSError."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _locked(path: Path) -> int:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise Unavailable(f"the prolog of job {path.stem} has ended, and its epilog has removed its swap") from error
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise Unavailable(f"{path.stem} has a swap already") from error
    if _has_no_reader(sys.stdout.fileno()):
        os.close(file)
        raise Unavailable(f"the prolog of job {path.stem} has ended")
    return file


def _has_no_reader(pipe: int) -> bool:
    """Return whether the process that reads a pipe has ended."""
    poll = select.poll()
    poll.register(pipe, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _protect() -> Iterator[str]:
    """Protect this process, and yield what this node does not allow."""
    job_cgroup.leave_job_cgroups()
    try:
        Path("/proc/self/oom_score_adj").write_text("-1000")
    except OSError as error:
        yield f"the OOM killer may end the swap: oom_score_adj: {error.strerror}"
    try:
        kernel_calls.set_io_flusher()
    except OSError as error:
        yield f"PR_SET_IO_FLUSHER: {error.strerror}"
    gc.disable()  # a collection touches every object
    kernel_calls.lock_memory()


def _start_swap(order: SwapOrder, store: PageStore) -> FuseFile:
    store.write(0, memoryview(swap_area.header(order.swap_bytes, order.job)))
    device = open_device()
    kernel_calls.private_mounts()
    place = order.run / f"{order.job}.mount"
    place.mkdir(exist_ok=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,max_read={fuse_protocol.MAX_BYTES}"
    kernel_calls.mount("tiresias-job-swap", str(place), FILE_SYSTEM, options)
    served = FuseFile(device, store, order.swap_bytes)
    served.start()
    path = _attached(place, order.job)
    if order.zram_bytes:
        kernel_calls.swap_on(zram_devices.create(order.zram_bytes, order.job), swap_area.PRIORITY + 1)
    kernel_calls.swap_on(path, swap_area.PRIORITY)
    return served


def _attached(place: Path, job: str) -> str:
    """Attach the file to a loop device; only the device keeps the file system then, and no name leads to it."""
    file = os.open(place / os.fsdecode(fuse_protocol.FILE_NAME), os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    try:
        path = loop_devices.attach(file, job)
    finally:
        os.close(file)
    kernel_calls.detach(str(place))
    place.rmdir()
    return path


def _keep_limits(order: SwapOrder) -> None:
    """Keep the limits of the job's cgroups as long as this process lives."""
    cgroup = JobCgroup(order.cgroups, order.job, order.swap_bytes + order.zram_bytes)
    while True:
        cgroup.raise_limits()
        cgroup.wait_for_change()


def _reports(order: SwapOrder, traffic: Callable[[], dict[str, Any]]) -> UseReports:
    return UseReports(order.reported, OwnerFiles(order.run, order.job, order.reported.owner), traffic)


def _write_traffic(order: SwapOrder, traffic: dict[str, Any]) -> None:
    with suppress(OSError):
        file = order.run / f"{order.job}.traffic"
        file.touch(mode=0o600)
        file.write_text(json.dumps(traffic))
