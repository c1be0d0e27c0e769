"""The privileged parts in Slurm's prolog and epilog: each ends within a bound and may be repeated.

A refused request does not fail the prolog, which would drain the node: the job runs without a swap, and the file `refused` of its
owner (owner_files.py) has the reason.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tiresias.errors import TiresiasError, Unavailable, UsageError
from tiresias.protocol.job_log import log_line
from tiresias.protocol.remote_memory_use import REFUSED
from tiresias.services.remote_memory.job_swap import loop_devices, removal, swap_process, swap_request
from tiresias.services.remote_memory.job_swap.key_handover import hand_over
from tiresias.services.remote_memory.job_swap.owner_files import OwnerFiles, make_run_folder, owner_of
from tiresias.services.remote_memory.job_swap.swap_settings import SwapSettings
from tiresias.services.remote_memory.job_swap.use_publication import MODULE, node_of, publish_at_end, start_refusal


def run_prolog(settings: SwapSettings, file: Path, environment: Mapping[str, str]) -> None:
    """Start the swap of a job that requests one.

    Args:
        settings: The node's configuration.
        file: Its file, for the serving process.
        environment: Slurm's variables.

    Raises:
        TiresiasError: The job runs without it; the reason.
    """
    job = swap_request.job_of(environment)
    owner = owner_of(environment)
    OwnerFiles(settings.run, job, owner).remove()  # of a run before
    text = swap_request.request_text(job, settings.requests, settings.request_variable, environment)
    size = swap_request.requested_bytes(text)
    hand_over(settings, job, owner, node_of(environment), requests=size > 0)
    if not size:
        return
    if size > settings.most_bytes:
        raise UsageError(f"remote-mem of {size >> 20} MiB: this node gives {settings.most_bytes >> 20} MiB to a job")
    make_run_folder(settings.run)
    with _alone(settings):
        _remove_orphans(settings)
        _start(settings, file, job, size)


def run_epilog(settings: SwapSettings, job: str, environment: Mapping[str, str]) -> None:
    """Remove the swap of a job, and what dead processes left of other jobs' swaps.

    Args:
        settings: The node's configuration.
        job: The job.
        environment: Slurm's variables.

    Raises:
        Unavailable: The kernel does not release it in time.
    """
    make_run_folder(settings.run)
    removal.remove(job, settings.run, settings.swap_off_timeout_s)
    publish_at_end(settings, job, environment)
    OwnerFiles(settings.run, job, owner_of({})).remove()
    _log_traffic(settings.run / f"{job}.traffic", job)
    (settings.run / f"{job}.log").unlink(missing_ok=True)


def refuse(settings: SwapSettings, file: Path, environment: Mapping[str, str], reason: str) -> None:
    """Record why a job has no swap: in the prolog's output, for the job's owner, and for the controller and the other nodes."""
    job = environment.get("SLURM_JOB_ID", "")
    log_line(f"remote memory: job {job} runs without it: {reason}")
    if swap_request.is_job(job):
        with suppress(OSError):
            OwnerFiles(settings.run, job, owner_of(environment)).put(REFUSED, f"{' '.join(reason.split())}\n")
        start_refusal(file, job)


@contextmanager
def _alone(settings: SwapSettings) -> Iterator[None]:
    """Hold the lock of all prologs of this node, or give up in time."""
    deadline = time.monotonic() + settings.start_timeout_s
    file = os.open(settings.run / "prolog.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(file):
            if time.monotonic() > deadline:
                raise Unavailable("another prolog of this node does not end")
            time.sleep(0.02)
        yield
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_orphans(settings: SwapSettings) -> None:
    for job in removal.orphans(settings.run):
        log_line(f"remote memory: the process of job {job} has ended; its swap is removed")
        removal.remove(job, settings.run, settings.swap_off_timeout_s)


def _start(settings: SwapSettings, file: Path, job: str, size: int) -> None:
    others = {each.job for each in loop_devices.own_devices()} - {job}
    if swap_process.lock_holder(
        settings.run / f"{job}.lock"
    ):  # a repeated prolog, or a requeued job without its epilog
        removal.remove(job, settings.run, settings.swap_off_timeout_s)
    if len(others) >= settings.most_jobs:
        raise Unavailable(
            f"this node has the swap of job {', '.join(sorted(others))} (most_jobs = {settings.most_jobs})"
        )
    swap_process.create_lock(settings.run / f"{job}.lock")
    command = [sys.executable, "-m", MODULE, "serve", str(file), job, str(size)]
    with _private(settings.run / f"{job}.log") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True, cwd="/"
        )
    try:
        _wait_ready(process, settings, job)
    except Unavailable:
        process.kill()
        removal.remove(job, settings.run, settings.swap_off_timeout_s)
        raise


def _private(file: Path) -> BinaryIO:
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def _wait_ready(process: subprocess.Popen[bytes], settings: SwapSettings, job: str) -> None:
    assert process.stdout is not None
    with process.stdout as output:
        readable, _, _ = select.select([output], [], [], settings.start_timeout_s)
        line = output.readline() if readable else b""
    if line != swap_process.READY:
        late = f"it did not start within {settings.start_timeout_s:g} s"
        raise Unavailable(_last_line(settings.run / f"{job}.log") if readable else late)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("tiresias: ") if lines else "its process ended"


def _log_traffic(file: Path, job: str) -> None:
    with suppress(FileNotFoundError):
        log_line(f"remote memory: job {job}: {file.read_text()}")
        file.unlink()


def own_error(error: Exception) -> str:
    """Return the one line of an error."""
    return str(error) if isinstance(error, TiresiasError) else f"{type(error).__name__}: {error}"
