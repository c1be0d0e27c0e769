"""A process that allocates as fast as it can beside a donor that has lent everything, and without it. Prints JSON.

    python bench/remote_memory_headroom.py [--rounds 20] [--mib 4096] [--headroom-mib 512]

A memory cgroup (v1) has the limit; a donor in it lends all but the headroom to a client outside of it, which has filled the slabs.
A process in the cgroup then takes all of the limit less the headroom and what the donor itself needs. The same process runs without
a donor in turns. `slowdown` is the median over the pairs of the time with by the time without, less 1; that of the seconds on a CPU
depends less on other programs. `oom` counts what the kernel killed in the cgroup, `reclaims` how often an allocation met the limit.
Run as root.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.services.remote_memory.donors import DonorProcess, region_settings, until
from tiresias.services.remote_memory.client.remote_pages import RemotePages

MEMORY = Path("/sys/fs/cgroup/memory")
DONOR_MIB = 96  # what the donor's process needs beside its slabs
SLAB = 16
ALLOCATOR = """
import mmap, sys, time
total, step = int(sys.argv[1]) << 20, 4 << 20
memory = mmap.mmap(-1, total, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
start, used = time.perf_counter(), time.process_time()
for at in range(0, total, step):
    memory.madvise(23, at, min(step, total - at))
print(time.perf_counter() - start, time.process_time() - used)
"""


class Node:
    """The cgroup that stands for a node."""

    def __init__(self, mib: int) -> None:
        self.folder = MEMORY / f"tiresias-headroom-{os.getpid()}"
        self.folder.mkdir()
        (self.folder / "memory.limit_in_bytes").write_text(str(mib << 20))

    def count(self) -> tuple[int, int]:
        """Return the processes that the kernel killed, and how often an allocation met the limit."""
        killed = dict(line.split() for line in (self.folder / "memory.oom_control").read_text().splitlines())
        return int(killed.get("oom_kill", 0)), int((self.folder / "memory.failcnt").read_text())

    def allocate(self, mib: int) -> tuple[float, float]:
        """Run the process and return its seconds, and those of them on a CPU; nan where it was killed."""
        words = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs")]
        done = subprocess.run(
            [*words, sys.executable, "-c", ALLOCATOR, str(mib)], capture_output=True, text=True, check=False
        )
        seconds, cpu = done.stdout.split() if done.returncode == 0 else ("nan", "nan")
        return float(seconds), float(cpu)

    def close(self) -> None:
        """Remove the cgroup, without processes by now."""
        self.folder.rmdir()


class Lender:
    """A donor in the cgroup and a client that takes all that it lends."""

    def __init__(self, node: Node, folder: Path, mib: int, headroom: int) -> None:
        self.donor = DonorProcess(
            folder / "donor", node.folder, memory=str(node.folder), most_mib=mib, headroom_mib=headroom, slab_mib=SLAB
        )
        pages = mib << 8
        settings = region_settings(folder, [self.donor.address], pages, slab_bytes=SLAB << 20, donor_timeout_s=5.0)
        self.region = RemotePages(settings)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._use, args=(pages,))
        self._thread.start()

    def _use(self, pages: int) -> None:
        chance, content = random.Random(1), bytes(4096)
        while not self._end.wait(0.001):
            self.region.write(chance.randrange(pages), content)

    def fill(self) -> int:
        """Wait until nothing more is lent; return the lent MiB."""
        until(
            lambda: (found := self.donor.statistics())["available_slabs"] == 0 and found["mapped"], "all is lent", 180
        )
        return int(self.donor.statistics()["mapped"]) * SLAB

    def close(self) -> None:
        """End both."""
        self._end.set()
        self._thread.join()
        self.region.close()
        self.donor.end()


def paired(rounds: int, mib: int, headroom: int, folder: Path) -> dict[str, Any]:
    """Return the times of each pair, and what the kernel counted."""
    node = Node(mib)
    need, pairs, lent, lowest = mib - headroom - DONOR_MIB, [], [], []
    try:
        node.allocate(need)
        for number in range(rounds):
            alone = node.allocate(need)
            lender = Lender(node, folder / str(number), mib, headroom)
            try:
                lent.append(lender.fill())
                beside = node.allocate(need)
                lowest.append(lender.donor.statistics()["lowest_available_bytes"] >> 20)
            finally:
                lender.close()
            pairs.append((alone, beside))
        killed, reclaims = node.count()
    finally:
        node.close()
    return {
        "allocated_mib": need,
        "lent_mib": statistics.median(lent),
        "seconds": _compared([(alone[0], beside[0]) for alone, beside in pairs]),
        "cpu_seconds": _compared([(alone[1], beside[1]) for alone, beside in pairs]),
        "lowest_available_mib": min(lowest),
        "oom": killed,
        "reclaims": reclaims,
    }


def _compared(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    return {
        "alone": round(statistics.median(one for one, _ in pairs), 4),
        "beside": round(statistics.median(other for _, other in pairs), 4),
        "slowdown": round(statistics.median(other / one for one, other in pairs) - 1, 4),
        "slowdowns": sorted(round(other / one - 1, 3) for one, other in pairs),
    }


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--mib", type=int, default=4096, help="the limit of the cgroup")
    parser.add_argument("--headroom-mib", type=int, default=512, help="default: one eighth, as a donor has it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        found = paired(args.rounds, args.mib, args.headroom_mib, Path(place))
    print(json.dumps({"load": os.getloadavg()[0], **found}, indent=1))


if __name__ == "__main__":
    main()
