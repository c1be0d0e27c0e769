"""Removal of a job's swap: bounded in time, repeatable, and without any record but the kernel's tables.

Each step looks for what exists: swaps on devices of the job, the devices, the process. A kill at any time leaves a state from
which the next call continues. The job's processes must have ended: pages that they still have are read back into memory.

Where other jobs of the node have a swap, pages of theirs are on the device as well (the kernel has one pool of swap devices). These
are moved, and the bound holds for a time without any progress: pages of a job that runs are not given up because they are many.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tiresias.errors import Unavailable
from tiresias.services.remote_memory.job_swap import kernel_calls, loop_devices, swap_area, zram_devices
from tiresias.services.remote_memory.job_swap.bounded_child import in_child
from tiresias.services.remote_memory.job_swap.loop_devices import LoopDevice
from tiresias.services.remote_memory.job_swap.swap_process import lock_holder

SWAP_OFF_TIMEOUT_S = 30.0
ABORTED_TIMEOUT_S = 20.0  # for swapoff of pages that are given up
END_TIMEOUT_S = 5.0
_POLL_S = 0.01
_MOST_ROUNDS = 3  # the serving process may make a device while the first round looks for it


def remove(job: str, run: Path, swap_off_timeout_s: float = SWAP_OFF_TIMEOUT_S) -> None:
    """Remove all that a job's swap consists of.

    Raises:
        Unavailable: The kernel does not release a device in time. A later call continues.
    """
    for _ in range(_MOST_ROUNDS):
        for device in [each for each in loop_devices.own_devices() if each.job == job]:
            _release(device.path, swap_off_timeout_s, _abort_of(device, run), _progress(device.path, job))
            loop_devices.detach_device(device.path, job)
        for zram in [each for each in zram_devices.own_devices() if each.job == job]:
            _release(zram.path, swap_off_timeout_s, lambda: None, _progress(zram.path, job))
            zram_devices.remove(zram.path, job)
        _end_process(run / f"{job}.lock")
        if not has_devices(job):
            break
    _remove_files(job, run)
    if has_devices(job):
        raise Unavailable(f"job {job}: the kernel does not release {', '.join(_paths(job))}")


def has_devices(job: str) -> bool:
    """Return whether the job has devices."""
    return bool(_paths(job))


def orphans(run: Path) -> set[str]:
    """Return the jobs that have devices, and no process that serves them."""
    return {job for job in _jobs() if not lock_holder(run / f"{job}.lock")}


def _jobs() -> set[str]:
    return {each.job for each in loop_devices.own_devices()} | {each.job for each in zram_devices.own_devices()}


def _paths(job: str) -> list[str]:
    loops = [each.path for each in loop_devices.own_devices() if each.job == job]
    return loops + [each.path for each in zram_devices.own_devices() if each.job == job]


def _progress(path: str, job: str) -> Callable[[], int]:
    """Return what reads the bytes that are left on a device, where other jobs have a swap; else nothing counts as progress."""
    others = _jobs() - {job}

    def left() -> int:
        found = swap_area.swaps().get(path)
        return found.used if found else 0

    return left if others else lambda: 0


def _swap_off(path: str, timeout_s: float, left: Callable[[], int]) -> bool:
    """Return whether the kernel has stopped to swap on a device in time.

    A call fails where it finds no memory for a page, such as in the full cgroup of another job. It is repeated as long as it moves
    pages.
    """
    before = left()
    while not in_child(lambda: kernel_calls.swap_off(path), timeout_s, left):
        if (now := left()) >= before:
            return False
        before = now
    return True


def _release(path: str, timeout_s: float, abort: Callable[[], None], left: Callable[[], int]) -> None:
    """Stop to swap on a device. Where its pages do not arrive in time, `abort` has the kernel give them up.

    Raises:
        Unavailable: That did not help.
    """
    if not swap_area.is_claimed(path) or _swap_off(path, timeout_s, left):
        return
    abort()
    for _ in _until(ABORTED_TIMEOUT_S):  # the first call may still go on, and a page without memory for it fails a call
        if not swap_area.is_claimed(path) or in_child(lambda: kernel_calls.swap_off(path), ABORTED_TIMEOUT_S):
            return
    raise Unavailable(f"swapoff of {path} did not end within {timeout_s + ABORTED_TIMEOUT_S:.0f} s")


def _abort_of(device: LoopDevice, run: Path) -> Callable[[], None]:
    def abort() -> None:
        """End the process and the FUSE connection: requests in flight and later ones fail."""
        if pid := lock_holder(run / f"{device.job}.lock"):
            _kill(pid)
        in_child(lambda: _abort_connection(device.connection, run), END_TIMEOUT_S)

    return abort


def _abort_connection(number: int, run: Path) -> None:
    kernel_calls.private_mounts()
    kernel_calls.mount("fusectl", str(run), "fusectl", "")
    with suppress(FileNotFoundError):
        (run / str(number) / "abort").write_text("1")


def _end_process(lock: Path) -> None:
    """Wait for the end of the serving process, which follows that of its device; then kill it. Its figures are lost then."""
    for _ in _until(END_TIMEOUT_S):
        if not lock_holder(lock):
            return
    if pid := lock_holder(lock):
        _kill(pid)
    for _ in _until(END_TIMEOUT_S):
        if not lock_holder(lock):
            return


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _until(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(_POLL_S)


def _remove_files(job: str, run: Path) -> None:
    with suppress(OSError):
        (run / f"{job}.mount").rmdir()
    with suppress(OSError):
        (run / f"{job}.lock").unlink()
