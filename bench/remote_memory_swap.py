"""Swap of a job through FUSE against swap on disk and in compressed memory. Prints JSON. Needs root and memory cgroups (v1).

    python bench/remote_memory_swap.py [--rounds 3] [--folder /var/tmp] [--ways disk,fuse-disk,fuse-donors,zram]

disk         a swap file on the local disk, without FUSE and loop device
fuse-disk    the swap of a job (services/remote_memory/job_swap) with its pages on the local disk, through the page cache
fuse-donors  the same with two donors on the loopback interface, and copies on the local disk
zram         a compressed block device in memory

fault    A process with 128 MiB in a cgroup of 64 MiB reads random pages: the time of those reads that are major faults.
numpy    Batches of random rows (80% of them from 20% of the rows) are multiplied and changed in place, for a fixed time, at 100,
         75 and 50% of the memory that the program uses: batches per second; 0: the kernel killed the program.
device   One page of 4 KiB is written and read with O_DIRECT on the block device or the swap file, before any swap.

Ways alternate within a round; `ratio_to_disk` is the median over the rounds of the ratio within a round. Other programs on the same
cores change the times of all ways.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tiresias.services.remote_memory.job_swap import kernel_calls, loop_devices, swap_area, zram_devices

MIB = 1 << 20
MEMORY = Path("/sys/fs/cgroup/memory")
WAYS = ("disk", "fuse-disk", "fuse-donors", "zram")
SWAP_MIB, DONOR_MIB, SLAB_MIB = 256, 256, 16
FAULT_MIB, FAULT_LIMIT_MIB = 128, 64
SHARES = (1.0, 0.75, 0.5)
SECONDS = 3.0
SWAP_MODULE, DONOR_MODULE = "tiresias.services.remote_memory.job_swap", "tiresias.services.remote_memory.donor"

FAULTS = """
import json, mmap, random, resource, sys, time
pages = int(sys.argv[1]) << 8
memory, chance, found = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), random.Random(1), []
memory.madvise(mmap.MADV_NOHUGEPAGE)
for round in range(3):  # the first round fills; with donors, slabs become hot in the second
    for page in range(pages):
        memory[page * 4096 : page * 4096 + 64] = chance.randbytes(64)
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_majflt
before = faults()
for _ in range(8000):
    at = chance.randrange(pages) * 4096
    start = time.perf_counter_ns()
    memory[at]
    taken = time.perf_counter_ns() - start
    after = faults()
    if after != before:
        found.append(taken)
    before = after
found.sort()
median, p99 = (found[len(found) * share // 100] / 1000 for share in (50, 99))
print(json.dumps({"faults": len(found), "median_us": median, "p99_us": p99}))
"""
NUMPY = """
import json, resource, sys, time
import numpy as np
seconds = float(sys.argv[1])
random = np.random.default_rng(1)
rows = np.empty((16384, 1024))
for at in range(0, len(rows), 64):
    rows[at : at + 64] = random.standard_normal((64, 1024))
weights = random.standard_normal((1024, 16))
hot, batches, start = len(rows) // 5, 0, time.monotonic()
while time.monotonic() - start < seconds:
    chosen = np.where(random.random(64) < 0.8, random.integers(0, hot, 64), random.integers(0, len(rows), 64))
    batch = rows[chosen]
    rows[chosen] = batch + 1e-6 * (batch @ weights) @ weights.T
    batches += 1
taken = time.monotonic() - start
print(json.dumps({"batches_per_s": batches / taken, "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


@contextmanager
def cgroup(name: str, limit_bytes: int) -> Iterator[Path]:
    """Create the memory cgroup of a program: what exceeds the limit may be swapped."""
    folder = MEMORY / f"tiresias-bench-{os.getpid()}-{name}"
    folder.mkdir()
    (folder / "memory.swappiness").write_text("60")
    (folder / "memory.limit_in_bytes").write_text(str(limit_bytes))
    (folder / "memory.memsw.limit_in_bytes").write_text(str(limit_bytes + SWAP_MIB * MIB))
    try:
        yield folder
    finally:
        folder.rmdir()


def limited(program: str, argument: float, limit_bytes: int) -> dict[str, float]:
    """Run a program in a cgroup and return what it prints."""
    with cgroup(secrets.token_hex(4), limit_bytes) as folder:
        words = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(folder / "cgroup.procs"), sys.executable, "-c", program]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run([*words, str(argument)], capture_output=True, text=True, check=False, env=environment)
    if done.returncode == -signal.SIGKILL:
        return {}
    if done.returncode:
        raise SystemExit(f"a program ended with {done.returncode}: {done.stderr.strip()}")
    return dict(json.loads(done.stdout))


@contextmanager
def disk_swap(folder: Path) -> Iterator[str]:
    """Swap on a file."""
    file = folder / "plain.swap"
    with file.open("wb") as out:
        file.chmod(0o600)
        os.posix_fallocate(out.fileno(), 0, SWAP_MIB * MIB)
        out.write(swap_area.header(SWAP_MIB * MIB, "0"))
        out.flush()
        os.fsync(out.fileno())
    kernel_calls.swap_on(str(file), swap_area.PRIORITY)
    try:
        yield str(file)
    finally:
        kernel_calls.swap_off(str(file))
        file.unlink()


@contextmanager
def zram_swap() -> Iterator[str]:
    """Swap on a zram device."""
    path = zram_devices.create(SWAP_MIB * MIB, "900001")
    kernel_calls.swap_on(path, swap_area.PRIORITY)
    try:
        yield path
    finally:
        kernel_calls.swap_off(path)
        zram_devices.remove(path, "900001")


@contextmanager
def job_swap(folder: Path, donors: list[str]) -> Iterator[str]:
    """Swap of a job by its prolog and epilog."""
    job, file = "900002", folder / "swap.json"
    content: dict[str, Any] = {"disk": str(folder), "run": str(folder / "run"), "cgroups": [], "slab_mib": SLAB_MIB}
    if donors:
        content |= {"donors": donors, "service_key_file": str(folder / "key")}
    file.touch(mode=0o600)
    file.write_text(json.dumps(content))
    environment = {**os.environ, "SLURM_JOB_ID": job, "SLURM_JOB_EXTRA": f"remote-mem={SWAP_MIB}M"}

    def part(name: str) -> str:
        command = [sys.executable, "-m", SWAP_MODULE, name, str(file)]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stderr

    if problem := part("prolog"):
        raise SystemExit(problem)
    try:
        yield next(each.path for each in loop_devices.own_devices() if each.job == job)
    finally:
        print(part("epilog"), end="", file=sys.stderr)


@contextmanager
def donor(folder: Path, number: int) -> Iterator[str]:
    """Run a donor and yield its address."""
    announce, config = folder / f"donor{number}.json", folder / f"donor{number}.conf"
    announce.unlink(missing_ok=True)
    config.touch(mode=0o600)
    content = {"listen": "127.0.0.1:0", "service_key_file": str(folder / "key"), "announce": str(announce)}
    config.write_text(json.dumps({**content, "most_mib": DONOR_MIB, "slab_mib": SLAB_MIB, "headroom_mib": 1024}))
    process = subprocess.Popen([sys.executable, "-m", DONOR_MODULE, str(config)])
    try:
        while not announce.exists():
            if process.poll() is not None:
                raise SystemExit("a donor ended")
            time.sleep(0.02)
        yield str(json.loads(announce.read_text())["address"])
    finally:
        process.terminate()
        process.wait()


@contextmanager
def swap_of(way: str, folder: Path) -> Iterator[str]:
    """Start the swap of a way and yield its device."""
    with ExitStack() as stack:
        donors = [stack.enter_context(donor(folder, number)) for number in range(2)] if way == "fuse-donors" else []
        opened = {"disk": lambda: disk_swap(folder), "zram": zram_swap}.get(way, lambda: job_swap(folder, donors))
        yield stack.enter_context(opened())


def numpy_rates(limit_kib: float) -> dict[str, float]:
    """Return batches per second at each share of the memory."""
    return {
        f"{share:.0%}": limited(NUMPY, SECONDS, int(share * limit_kib * 1024) & -4096).get("batches_per_s", 0.0)
        for share in SHARES
    }


def measured(way: str, folder: Path, limit_kib: float) -> dict[str, Any]:
    """Return the results of one way."""
    with swap_of(way, folder):
        faults = limited(FAULTS, FAULT_MIB, FAULT_LIMIT_MIB * MIB)
        return {"fault": faults, "numpy": numpy_rates(limit_kib)}


def page_times(path: str, size: int, count: int = 3000) -> dict[str, dict[str, float]]:
    """Return the times of single pages on an open device or file."""
    file, buffer = os.open(path, os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, 4096)
    buffer[:] = secrets.token_bytes(4096)
    times: dict[str, list[float]] = {"write": [], "read": []}
    calls: dict[str, Callable[..., int]] = {"write": os.pwritev, "read": os.preadv}
    for name, call in calls.items():
        for number in range(count):
            offset = (number * 7919) % (size // 4096) * 4096
            start = time.perf_counter()
            call(file, [buffer], offset)
            times[name].append((time.perf_counter() - start) * 1e6)
    os.close(file)
    return {name: quantiles(each) for name, each in times.items()}


def quantiles(times: list[float]) -> dict[str, float]:
    """Return median and 99th percentile."""
    times.sort()
    return {"median_us": round(times[len(times) // 2], 1), "p99_us": round(times[len(times) * 99 // 100], 1)}


def device_times(way: str, folder: Path) -> dict[str, Any]:
    """Return the times of the device of a way: the swap is switched off on it first, so that its content does not matter."""
    with swap_of(way, folder) as path:
        kernel_calls.swap_off(path)
        try:
            return page_times(path, 64 * MIB)
        finally:
            restore(path)


def restore(path: str) -> None:
    """Swap on the device again, as its way expects."""
    label = "900001" if "zram" in path else "900002"
    file = os.open(path, os.O_RDWR)
    os.pwrite(file, swap_area.header(SWAP_MIB * MIB, label), 0)
    os.fsync(file)
    os.close(file)
    kernel_calls.swap_on(path, swap_area.PRIORITY)


def summary(rounds: list[dict[str, Any]], way: str) -> dict[str, Any]:
    """Return the medians of a way, and its ratios to swap on disk."""
    faults = [each[way]["fault"] for each in rounds]
    found: dict[str, Any] = {key: round(statistics.median(each[key] for each in faults), 1) for key in faults[0]}
    for share in rounds[0][way]["numpy"]:
        rates = [each[way]["numpy"][share] for each in rounds]
        found[f"numpy {share}"] = {"batches_per_s": round(statistics.median(rates), 1)}
        if "disk" in rounds[0]:
            ratios = [each[way]["numpy"][share] / each["disk"]["numpy"][share] for each in rounds]
            found[f"numpy {share}"]["ratio_to_disk"] = round(statistics.median(ratios), 2)
    return found


def main() -> None:
    """Measure all ways in turn and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="on the local disk")
    parser.add_argument("--ways", default=",".join(WAYS), help="default: %(default)s")
    args = parser.parse_args()
    ways = args.ways.split(",")
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_text(secrets.token_hex(32))
        local = limited(NUMPY, SECONDS, 1024 * MIB)
        devices = {way: device_times(way, folder) for way in ways}
        rounds = [{way: measured(way, folder, local["peak_kib"]) for way in ways} for _ in range(args.rounds)]
    results = {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "numpy without a limit": local,
        "device": devices,
        "ways": {way: summary(rounds, way) for way in ways},
        "rounds": rounds,
    }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
