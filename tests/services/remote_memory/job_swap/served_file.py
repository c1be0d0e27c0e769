"""Serve a file, and read and write it through the kernel. Prints JSON.

    python served_file.py FOLDER THREADS OPERATIONS

Each thread has pages of its own. Mounts are those of this process alone.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import sys
import threading
from pathlib import Path

from tiresias.services.remote_memory.job_swap import fuse_protocol, kernel_calls
from tiresias.services.remote_memory.job_swap.fuse_file import FuseFile, open_device
from tiresias.services.remote_memory.job_swap.page_store import DiskStore
from tiresias.services.remote_memory.job_swap.swap_process import FILE_SYSTEM

PAGE, PAGES_EACH = 4096, 512


class FailingStore(DiskStore):
    """A store on disk whose first page cannot be read."""

    def read(self, offset: int, into: memoryview) -> None:
        """Fail for the first page."""
        if not offset:
            raise RuntimeError("as asked")
        super().read(offset, into)


def mounted(folder: Path, size: int) -> tuple[FuseFile, str]:
    """Return the served file and its path."""
    device = open_device()
    kernel_calls.private_mounts()
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,max_read={fuse_protocol.MAX_BYTES}"
    kernel_calls.mount("test", str(folder), FILE_SYSTEM, options)
    served = FuseFile(device, FailingStore(Path("/var/tmp"), size), size)
    served.start()
    return served, f"{folder}/{os.fsdecode(fuse_protocol.FILE_NAME)}"


def operate(file: int, first: int, operations: int, result: dict[str, int]) -> None:
    """Read and write pages at random, and compare."""
    chance, model = random.Random(first), bytearray(PAGES_EACH * PAGE)
    buffer = mmap.mmap(-1, 80 * PAGE)  # direct I/O needs whole pages
    for _ in range(operations):
        pages = chance.choice((1, 1, 2, 8, 33, 80))
        at = chance.randrange(PAGES_EACH - pages) * PAGE
        view = memoryview(buffer)[: pages * PAGE]
        if chance.random() < 0.5:
            view[:] = model[at : at + len(view)] = chance.randbytes(len(view))
            assert os.pwritev(file, [view], first * PAGE + at) == len(view)
        else:
            assert os.preadv(file, [view], first * PAGE + at) == len(view)
            result["compared_pages"] += pages
            result["wrong"] += view != model[at : at + len(view)]


def outcome(file: int, offset: int) -> str:
    """Return how a read of one page ends."""
    try:
        return "page" if os.preadv(file, [mmap.mmap(-1, PAGE)], offset) else "empty"
    except OSError as error:
        return type(error).__name__


def main(folder: Path, threads: int, operations: int) -> None:
    """Run all threads."""
    size = (1 + threads * PAGES_EACH) * PAGE
    served, path = mounted(folder, size)
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    results = [{"compared_pages": 0, "wrong": 0} for _ in range(threads)]
    workers = [
        threading.Thread(target=operate, args=(file, 1 + number * PAGES_EACH, operations, result))
        for number, result in enumerate(results)
    ]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    sums: dict[str, object] = {name: sum(each[name] for each in results) for name in results[0]}
    sums["failed_as_asked"] = [outcome(file, 0) for _ in range(3)].count("OSError")
    sums["beyond_the_end"] = outcome(file, size)
    os.close(file)
    kernel_calls.detach(str(folder))
    served.join()
    print(json.dumps(sums))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
