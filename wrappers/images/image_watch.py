"""Wait until the program runs, and register it as one that can save: a process that the supervisor starts.

    image_watch TOOL FOLDER ADDRESS CHECKPOINTS CONTROL RESTART

After a restore it removes the image's files from the node, and the restore no longer counts as an attempt that failed.
"""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import suppress

from tiresias.protocol.job_log import log_line
from tiresias.wrappers.images import image_job

POLL_S = 0.1


def main(words: list[str]) -> int:
    """Run until the program runs; the supervisor kills this process when it does not come to that."""
    job = image_job.of_words(words)
    while not job.place.running():
        time.sleep(POLL_S)
    step = job.step
    if step:
        from tiresias.checkpoint.store import Store

        for path in job.place.images.iterdir():
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        Store(job.checkpoints).confirm_restore()
    try:
        job.register(True, step)
    except OSError as error:
        log_line(f"{job.control}: {error.strerror}: this run cannot be preempted")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
