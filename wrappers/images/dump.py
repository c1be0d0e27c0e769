"""Dump the program as an image, and commit it to the store: a process that the supervisor starts.

    dump TOOL FOLDER ADDRESS CHECKPOINTS CONTROL RESTART

None of the program's instructions runs between the image and the requeue. What fails before the dump leaves it running. A requeue
ends this process only with SIGKILL: the image that is being written is then ignored, and the one before stays. The supervisor sends
PROGRAM_ENDED, which is blocked here, once the script has ended.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress

from tiresias.checkpoint import available_memory
from tiresias.errors import TiresiasError
from tiresias.protocol.job_log import log_line
from tiresias.wrappers.gpu_activity.meters import MeterUnavailable
from tiresias.wrappers.gpu_activity.nvml_meter import NvmlMeter
from tiresias.wrappers.images import image_job, image_store, mapped_processes, program_files, written_files
from tiresias.wrappers.images.image_job import ImageJob
from tiresias.wrappers.images.image_place import ProgramLost
from tiresias.wrappers.images.image_store import ImageNote

COMMITTED, RUNS_ON, NOT_COMMITTED, ENDED, LOST = CODES = 0, 2, 3, 4, 5  # exit codes
PROGRAM_ENDED = signal.SIGUSR1
START_TIMEOUT_S = 60.0  # for a program that is still being launched or restored
POLL_S = 0.05
SPARE_BYTES = 64 << 20


def main(words: list[str]) -> int:
    """Run; return the exit code."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a commit that has begun may end before SIGKILL
    job = image_job.of_words(words)
    found, problem = _program(job)
    if _has_ended():
        log_line("no image is dumped: the script has ended")
        return ENDED
    if problem := problem or _why_not(job, found):
        log_line(f"no image is dumped, and the script runs on: {problem}")
        return RUNS_ON
    executables = mapped_processes.executables(found)
    note = ImageNote(
        program_files.identities(executables, mapped_processes.libraries(found)),
        program_files.cpu_features(),
        str(job.place.images),
        job.place.TOOL,
    )
    began = time.monotonic()
    try:
        if problem := job.place.dump():
            return _failed(job, problem)
    except ProgramLost as error:
        log_line(f"the image was not completed, and the program was ended: {error}")
        return LOST
    if not job.place.CUTS_FILES:
        note = note._replace(written=written_files.sizes(job.place.pids()))
    return _commit(job, note, began)


def _program(job: ImageJob) -> tuple[list[int], str]:
    """Return the program's processes once they all run, or why not."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not job.place.running() and not _has_ended():
        if time.monotonic() > deadline:
            return [], f"it did not run within {START_TIMEOUT_S:g} s"
        time.sleep(POLL_S)
    return job.place.pids(), ""


def _failed(job: ImageJob, problem: str) -> int:
    if job.place.pids():
        log_line(f"the image was not completed, and the script runs on: {problem}")
        return RUNS_ON
    log_line(f"the program has ended without a complete image: {problem}")
    return ENDED


def _has_ended() -> bool:
    return PROGRAM_ENDED in signal.sigpending()


def _why_not(job: ImageJob, found: list[int]) -> str:
    if not found:
        return "it has no process that can be dumped"
    if problem := job.place.why_not(found):
        return problem
    on_gpus = 0
    if device := mapped_processes.gpu_device(found):
        if problem := job.place.gpu_problem():
            return f"the program has opened {device}, and {problem}"
        on_gpus, left = _bytes_on_gpus(), available_memory.available()
        if on_gpus > left:
            return (
                f"the program's GPUs hold {on_gpus >> 20} MiB, and the job has {left >> 20} MiB of memory left for them: request "
                "more with --mem"
            )
    free = shutil.disk_usage(job.place.folder).free
    needed = mapped_processes.image_bytes(found) + on_gpus + SPARE_BYTES
    if needed > free:
        return (
            f"the image takes up to {needed >> 20} MiB, and {job.place.folder.parent} on {os.uname().nodename} has "
            f"{free >> 20} MiB: set TMPDIR to a larger folder of the node"
        )
    return ""


def _bytes_on_gpus() -> int:
    """Return the memory in use on the job's GPUs, 0 where NVML cannot measure it."""
    with suppress(MeterUnavailable):
        return NvmlMeter(os.environ).bytes_used()
    return 0


def _commit(job: ImageJob, note: ImageNote, began: float) -> int:
    from tiresias.checkpoint.retention import policies_from_env
    from tiresias.checkpoint.store import Store

    dumped = time.monotonic() - began
    try:
        store = Store(job.checkpoints, policies_from_env(os.environ))
        step = max([0, *store.steps()]) + 1
        state = image_store.state_of(job.place.images, note)
        size = sum(path.stat().st_size for path in job.place.images.rglob("*"))
        store.save(step, state)
        seconds = time.monotonic() - began
        job.register(True, step, save=round(seconds, 3), saved_at=time.time())
    except (TiresiasError, OSError) as error:
        stays = job.place.resume()
        how = "" if stays else " from its copy on this node"
        log_line(f"the image cannot be committed, and the script continues{how}: {error}")
        return RUNS_ON if stays else NOT_COMMITTED
    job.place.end()
    log_line(f"image {step}: {size / 2**20:.1f} MiB, dumped in {dumped:.2f} s, committed after {seconds:.2f} s")
    return COMMITTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
