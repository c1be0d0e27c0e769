"""Random reads and writes of a region against an array, while donors are killed, stopped, cut off, and need their memory.

    python -m tests.services.remote_memory.random_operations [--operations 10000000] [--seed 1] [--seconds S]

Four donors, one of them through a proxy. An operation is one read or one write, of one page or of up to 80 over several slabs.
Faults follow each other at random distances: SIGKILL and a restart, SIGSTOP shorter and longer than the client's timeout, an
eviction of all slabs of a donor, an eviction while it is stopped, ended connections, a damaged page, and a disk that is full for a
while. The region's file is on a tmpfs of this test, which takes root; --disk names a folder in its place, and the disk is then
never full. A new region replaces the old one after 50,000 operations. A part of the reads and writes is without a wait, as those
of a region of memory. Every read is compared. The exit code is 1 where a byte is wrong.
"""

from __future__ import annotations

import argparse
import errno
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.services.remote_memory.donors import SLAB_MIB, DonorProcess, region_settings
from tests.services.remote_memory.frame_proxy import FrameProxy
from tiresias.services.remote_memory.client.disk_pages import LocalDiskFull
from tiresias.services.remote_memory.client.remote_pages import RemotePages

PAGE, PAGES, DONORS, MOST_PAGES = 4096, 2048, 4, 80
FAULT_EVERY = 8000  # operations, on average
FULL_WITHIN = 800  # operations of a new region: the file has no blocks then
REGION_OPERATIONS = 50_000
SEVERAL_PAGES = 0.04  # of the operations
WITHOUT_WAIT = 0.3  # of the reads and of the writes: begun and finished later, as a region does
TIMEOUT_S = 0.15
TMPFS_MIB = PAGES * PAGE * 2 >> 20
MUCH, NOTHING = 1 << 30, 0


class MemoryFile:
    """A file in the form of /proc/meminfo from which a donor reads how much memory is available."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set_available(MUCH)

    def set_available(self, size: int) -> None:
        text = f"MemTotal:       {MUCH >> 10} kB\nMemAvailable:   {size >> 10:>10} kB\n".encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)  # in place: a donor has it open
        os.pwrite(descriptor, text, 0)
        os.close(descriptor)


class Faults:
    """The faults, and what ends them: (time, end) in the order of time."""

    def __init__(
        self, donors: list[DonorProcess], memory: list[MemoryFile], proxy: FrameProxy, disk: Path | None, random: Random
    ):
        self.donors, self.memory, self.proxy, self.disk, self.random = donors, memory, proxy, disk, random
        self.count: Counter[str] = Counter()
        self._ends: list[tuple[float, Callable[[], None]]] = []
        self._busy: set[int] = set()

    def begin(self) -> None:
        """Begin a fault of a donor that has none."""
        kinds = [self._kill, self._stop, self._evict, self._evict_stopped, self._cut, self._damage]
        free = [number for number in range(len(self.donors)) if number not in self._busy]
        if not free:
            return
        kind = self.random.choice(kinds)
        kind(self.random.choice(free))
        self.count[kind.__name__.strip("_")] += 1

    def end_due(self, all_of_them: bool = False) -> None:
        """End the faults whose time is over."""
        now = time.monotonic()
        for each in [each for each in self._ends if all_of_them or each[0] <= now]:
            self._ends.remove(each)
            each[1]()

    def _end_in(self, number: int, seconds: float, end: Callable[[], None]) -> None:
        def ended() -> None:
            end()
            self._busy.discard(number)

        self._busy.add(number)
        self._ends.append((time.monotonic() + seconds, ended))

    def _kill(self, number: int) -> None:
        self.donors[number].kill()
        self._end_in(number, self.random.uniform(0.0, 1.0), self.donors[number].restart)

    def _stop(self, number: int) -> None:
        self.donors[number].signal(signal.SIGSTOP)
        seconds = self.random.choice([0.005, 0.05, 2 * TIMEOUT_S])
        self._end_in(number, seconds, lambda: self.donors[number].signal(signal.SIGCONT))

    def _evict(self, number: int) -> None:
        self.memory[number].set_available(NOTHING)
        self._end_in(number, self.random.uniform(0.05, 0.5), lambda: self.memory[number].set_available(MUCH))

    def _evict_stopped(self, number: int) -> None:
        self.memory[number].set_available(NOTHING)
        self.donors[number].signal(signal.SIGSTOP)

        def end() -> None:
            self.donors[number].signal(signal.SIGCONT)
            self._end_in(number, 0.3, lambda: self.memory[number].set_available(MUCH))

        self._end_in(number, self.random.choice([0.02, 0.3]), end)

    def _cut(self, number: int) -> None:
        self.proxy.cut()

    def _damage(self, number: int) -> None:
        self.proxy.damage += 1

    def fill_disk(self) -> None:
        """Fill the disk for a while."""
        if self.disk is None or -1 in self._busy:
            return
        self.count["full disk"] += 1
        ballast = self.disk / "ballast"
        with ballast.open("wb") as file:
            while not _filled(file.fileno()):
                pass
        self._end_in(-1, self.random.uniform(0.01, 0.3), lambda: ballast.unlink(missing_ok=True))


def _filled(file: int) -> bool:
    """Take what is free on the disk of a file; return False where the region's thread has written there meanwhile."""
    free = os.statvfs(file)
    if free.f_bavail:
        try:
            os.posix_fallocate(file, 0, os.fstat(file).st_size + free.f_bavail * free.f_frsize)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
    return True


class Compared:
    """A region and the array that it is compared with."""

    def __init__(self, region: RemotePages, seed: int) -> None:
        self.region = region
        self.expected = np.zeros((PAGES, PAGE), dtype=np.uint8)
        self.random = Random(seed)
        self._noise = np.random.default_rng(seed).integers(0, 256, 1 << 22, dtype=np.uint8)
        self._buffer = bytearray(MOST_PAGES * PAGE)
        self.count: Counter[str] = Counter()
        self.wrong_bytes = 0

    def step(self) -> None:
        """Carry out one operation. Most of them are in one half of the region, so that some slabs are hotter than others."""
        pages = self.random.randint(2, MOST_PAGES) if self.random.random() < SEVERAL_PAGES else 1
        most = PAGES // 2 if self.random.random() < 0.7 else PAGES
        page = self.random.randrange(most - pages + 1)
        if self.random.random() < 0.4:
            self._write(page, pages)
        else:
            self._read(page, pages)

    def _write(self, page: int, pages: int) -> None:
        at = self.random.randrange(len(self._noise) - pages * PAGE)
        content = self._noise[at : at + pages * PAGE].reshape(pages, PAGE)
        queued = self.random.random() < WITHOUT_WAIT
        try:
            (self.region.queue_write if queued else self.region.write)(page, content.data)
            self.count["queued writes" if queued else "writes"] += 1
        except LocalDiskFull:
            self._accept_old_or_new(page, content)
            self.count["refused writes"] += 1
            return
        self.expected[page : page + pages] = content

    def _accept_old_or_new(self, page: int, content: np.ndarray[Any, Any]) -> None:
        """A request of the write has changed nothing, those before it are stored: pages are the new ones up to one of them."""
        found = np.frombuffer(self.region.read(page, len(content)), dtype=np.uint8).reshape(content.shape)
        new = 0
        while new < len(content) and np.array_equal(found[new], content[new]):
            new += 1
        old = self.expected[page + new : page + len(content)]
        self.wrong_bytes += int(np.count_nonzero(found[new:] != old))
        if new == len(content) and len(content) == 1:
            self.wrong_bytes += int(np.count_nonzero(found != self.expected[page]))  # one page is one request
        self.expected[page : page + new] = content[:new]

    def _read(self, page: int, pages: int) -> None:
        view = memoryview(self._buffer)[: pages * PAGE]
        if self.random.random() < WITHOUT_WAIT:
            begun = self.region.begin_read(page, view)
            other = self.random.randrange(PAGES)
            self._check(other, memoryview(self.region.read(other, 1)))
            self.region.finish_read(begun)
            self.count["reads ahead"] += 1
        else:
            self.region.read_into(page, view)
            self.count["reads"] += 1
        self._check(page, view)

    def _check(self, page: int, view: memoryview) -> None:
        pages = len(view) // PAGE
        expected = self.expected[page : page + pages]
        if view != expected.data.cast("B"):
            self.wrong_bytes += int(np.count_nonzero(np.frombuffer(view, np.uint8) != expected.reshape(-1)))

    def compare_all(self) -> None:
        """Compare the whole region."""
        for page in range(0, PAGES, MOST_PAGES):
            self._read(page, min(MOST_PAGES, PAGES - page))


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a tmpfs; None where that is not possible."""
    target = folder / "disk"
    target.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_MIB}m", "tmpfs", str(target)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield target
    finally:
        subprocess.run(["umount", "-l", str(target)], check=True)


def campaign(
    operations: int,
    seed: int,
    folder: Path,
    disk: Path | None,
    seconds: float = math.inf,
    progress: bool = False,
    fault_every: int = FAULT_EVERY,
) -> dict[str, Any]:
    """Run the operations, no new region after `seconds`, and return the results."""
    random, started, done = Random(seed), time.monotonic(), 0
    with ExitStack() as stack:
        small = None if disk else stack.enter_context(small_disk(folder))
        memory = [MemoryFile(folder / f"meminfo{number}") for number in range(DONORS)]
        options: dict[str, Any] = {
            "headroom_mib": SLAB_MIB,
            "most_mib": 6,
            "activity_timeout_s": 0.05,
            "eviction_timeout_s": 0.1,
        }
        donors = [
            DonorProcess(folder / f"donor{number}", memory=str(memory[number].path), **options)
            for number in range(DONORS)
        ]
        for donor in donors:
            stack.callback(donor.kill)
        proxy = FrameProxy(donors[0].address)
        stack.callback(proxy.close)
        addresses = [proxy.address, *(donor.address for donor in donors[1:])]
        settings = region_settings(
            disk or small or folder, addresses, PAGES, queue_pages=256, disk_timeout_s=0.05, donor_timeout_s=TIMEOUT_S
        )
        faults = Faults(donors, memory, proxy, small, random)
        kinds, statistics, wrong = Counter[str](), Counter[str](), 0
        while done < operations and time.monotonic() - started < seconds:
            with RemotePages(settings) as region:
                compared = Compared(region, random.getrandbits(32))
                full_at = random.randrange(FULL_WITHIN)
                for number in range(min(REGION_OPERATIONS, operations - done)):
                    done += 1
                    compared.step()
                    if number == full_at:
                        faults.fill_disk()
                    if random.random() < 1 / fault_every:
                        faults.begin()
                    if number % 16 == 0:
                        faults.end_due()
                compared.compare_all()
                kinds += compared.count
                wrong += compared.wrong_bytes
                statistics += Counter(region.counters.as_dict())
            if progress:
                print(f"{done} operations, {wrong} wrong bytes", file=sys.stderr, flush=True)
        faults.end_due(all_of_them=True)
        return {
            "seed": seed,
            "operations": done,
            "wrong_bytes": wrong,
            "seconds": round(time.monotonic() - started, 1),
            "kinds": dict(kinds),
            "faults": dict(faults.count),
            "region": {name: round(value, 1) for name, value in statistics.items()},
        }


def main() -> int:
    """Print the results as JSON; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--disk", type=Path, help="folder of the region's file; default: a small tmpfs")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no new region after so long")
    parser.add_argument("--out", type=Path, help="file of the results")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tiresias-remote-memory-") as folder:
        results = campaign(args.operations, args.seed, Path(folder), args.disk, args.seconds, progress=True)
    text = json.dumps(results, indent=2)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")
    return 1 if results["wrong_bytes"] else 0


if __name__ == "__main__":
    sys.exit(main())
