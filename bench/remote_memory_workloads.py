"""Programs with remote memory against the same programs with all of their memory, and with swap on disk. Prints JSON.

    python bench/remote_memory_workloads.py [--rounds 1] [--ways disk,region,job_swap] [--workloads ...] [--shares 0.75,0.5]

local     all memory is here
disk      a memory cgroup with a limit and a swap file on the local disk
region    the array is a region (services/remote_memory/region) with two donors on this machine, and as much memory here; redis has
          its large blocks there by the launcher of that folder
job_swap  a memory cgroup with the same limit and the swap of a job with the same donors
hdd       as disk, with the block cgroup limiting the disk to 150 MB/s and 100 requests per second: an emulated hard disk

A limit is the anonymous memory of a program before it has data, a share of the data, and 16 MiB; for redis a share of all. All of
redis's memory is in its region, which has the 16 MiB as well; other programs have their temporary memory beside it.
Interpreter and libraries are locked in memory under each way: swap on disk takes idle memory of these as well, a region does not,
and that is not measured here. The region's own process (about 50 MiB) and the donors use memory in addition. Workloads:
bench/remote_memory_programs.py, and redis with the ETC mix (bench/etc_client.py).
`ratio_to_disk` is the median over the rounds of the ratio within a round. A way that the machine lacks is left out, with a line.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import remote_memory_swap as swap
from etc_client import EtcClient

from tiresias.services.remote_memory.messages.job_key import job_key

MIB = 1 << 20
WAYS = ("disk", "region", "job_swap")
WORKLOADS = ("numpy_read", "numpy_write", "torch_ordered", "torch_shuffled", "touch", "redis")
PROGRAM = Path(__file__).with_name("remote_memory_programs.py")
BLOCKS = Path("/sys/fs/cgroup/blkio")
HDD = {"read_bps": 150_000_000, "write_bps": 150_000_000, "read_iops": 100, "write_iops": 100}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SLACK_MIB = 16  # for what a program allocates for a moment, and for page tables
VALUE_BYTES = 430  # of redis for a key and its value, about
MOST_WARM_S = 30.0  # of redis
Found = dict[str, Any]


class Workloads:
    """The programs, and what they are run with.

    Args:
        folder: On the local disk.
        mib: The data of a program.
        seconds: How long each is measured.
    """

    def __init__(self, folder: Path, mib: int, seconds: float) -> None:
        self.folder, self.mib, self.seconds = folder, mib, seconds
        self.donors: list[str] = []

    def run(self, workload: str, way: str, limit_kib: int, share: float) -> Found:
        """Return what a program prints; nothing where the kernel killed it."""
        options: Found = {"workload": workload, "mib": self.mib, "seconds": self.seconds}
        if way == "region":
            key, resident = (self.folder / "key").read_text(), int(share * self.mib) * MIB
            options |= {"donors": self.donors, "key": key, "folder": str(self.folder), "slab_mib": swap.SLAB_MIB}
            options |= {"resident": resident}
        with ExitStack() as stack:
            words = [sys.executable, str(PROGRAM), json.dumps(options)]
            if way not in ("local", "region"):
                words = stack.enter_context(limited(limit_kib, way == "hdd")) + words
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)
        if done.returncode == -signal.SIGKILL:
            return {}
        if done.returncode:
            raise SystemExit(f"{workload} ended with {done.returncode}: {done.stderr.strip()}")
        return dict(json.loads(done.stdout))

    def launcher(self, resident_mib: int) -> list[str]:
        """Return the beginning of a command whose program has its large blocks in a region (LD_PRELOAD)."""
        file, key = self.folder / "program.json", self.folder / "job-key"
        content = {"size_mib": 2 * self.mib, "resident_mib": resident_mib, "disk": str(self.folder)}
        content |= {"donors": self.donors, "job": "job-1", "key_file": str(key), "slab_mib": swap.SLAB_MIB}
        for path, text in (
            (file, json.dumps(content)),
            (key, job_key(bytes.fromhex((self.folder / "key").read_text()), "job-1").hex()),
        ):
            path.touch(mode=0o600)
            path.write_text(text)
        return [sys.executable, "-m", "tiresias.services.remote_memory.region", "run", str(file), "--"]

    def redis(self, way: str, limit_kib: int) -> Found:
        """Return the requests per second of redis, and its memory."""
        path = str(self.folder / f"{secrets.token_hex(4)}.sock")
        words = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no"]
        with ExitStack() as stack:
            if way == "region":
                words = self.launcher(limit_kib // 1024 + SLACK_MIB) + words
            elif way != "local":
                words = stack.enter_context(limited(limit_kib, way == "hdd")) + words
            server = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd=self.folder)
            stack.callback(ended, server)
            wait_for(Path(path), server)
            before = anonymous_kib(server.pid)
            client = EtcClient(path, self.mib // 2 * MIB // VALUE_BYTES)
            stack.callback(client.close)
            try:
                client.fill()
                client.warm_up(MOST_WARM_S)
                found = client.operations_per_s(self.seconds)
            except ConnectionError as error:
                if (code := server.wait(10)) == -signal.SIGKILL:  # by the kernel
                    return {}
                raise SystemExit(f"redis, {way}, ended with {code}") from error
            return {**found, "before_kib": before, "data_kib": anonymous_kib(server.pid) - before}

    def measured(self, workload: str, way: str, limit_kib: int, share: float) -> Found:
        """Return the results of one program."""
        if workload == "redis":
            return self.redis(way, limit_kib)
        return self.run(workload, way, limit_kib, share)


def anonymous_kib(pid: int) -> int:
    """Return the anonymous memory of a process, swapped or not."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "VmSwap:")))


def ended(process: subprocess.Popen[bytes]) -> None:
    """End a server."""
    process.kill()
    process.wait()


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server has its socket."""
    while not path.exists():
        if process.poll() is not None:
            raise SystemExit("a server ended")
        time.sleep(0.02)


@contextmanager
def limited(limit_kib: int, hdd: bool) -> Iterator[list[str]]:
    """Yield the beginning of a command that runs in a memory cgroup, and in one of the block devices."""
    with ExitStack() as stack:
        groups = [stack.enter_context(swap.cgroup(secrets.token_hex(4), (limit_kib * 1024 & -4096) + SLACK_MIB * MIB))]
        groups += [stack.enter_context(slow_disk())] if hdd else []
        enter = " && ".join(f"echo $$ > {group / 'cgroup.procs'}" for group in groups)
        yield ["sh", "-c", f'{enter} && exec "$0" "$@"']


@contextmanager
def slow_disk() -> Iterator[Path]:
    """Create a block cgroup with the speed of a hard disk."""
    group, number = BLOCKS / f"tiresias-bench-{os.getpid()}", Path("/var/tmp").stat().st_dev
    group.mkdir()
    for name, value in HDD.items():
        (group / f"blkio.throttle.{name}_device").write_text(f"{os.major(number)}:{os.minor(number)} {value}")
    try:
        yield group
    finally:
        group.rmdir()


@contextmanager
def started(way: str, workloads: Workloads) -> Iterator[None]:
    """Start what a way needs."""
    with ExitStack() as stack:
        if way in ("region", "job_swap"):
            workloads.donors = [stack.enter_context(swap.donor(workloads.folder, number)) for number in range(2)]
        if way in ("disk", "hdd"):
            stack.enter_context(swap.disk_swap(workloads.folder))
        elif way == "job_swap":
            stack.enter_context(swap.job_swap(workloads.folder, workloads.donors))
        yield


def lacking(way: str, workload: str) -> str:
    """Return why a way is left out; nothing where it is not."""
    if workload == "redis" and not shutil.which("redis-server"):
        return "redis-server is not installed"
    if way != "region" and (os.geteuid() != 0 or not swap.MEMORY.is_dir()):
        return "root and a memory cgroup (v1) are needed"
    return ""


def measured(workloads: Workloads, names: list[str], ways: list[str], shares: list[float]) -> Found:
    """Return the results of one round: workload, share, way."""
    found: Found = {name: {"local": workloads.measured(name, "local", 0, 1.0)} for name in names}
    for way in ways:
        with started(way, workloads):
            for name in names:
                if reason := lacking(way, name):
                    print(f"{name}, {way}: {reason}", file=sys.stderr)
                    continue
                before, data = (
                    found[name]["local"]["before_kib"],
                    found[name]["local"].get("data_kib", workloads.mib * 1024),
                )
                for share in shares:
                    result = workloads.measured(name, way, before + int(share * data), share)
                    found[name].setdefault(f"{share:.0%}", {})[way] = result
                    print(name, way, share, {key: result[key] for key in result if key != "region"}, file=sys.stderr)
    return found


def rate(result: Found) -> float:
    """Return the speed of a program; 0 where it was killed."""
    return float(result.get("mib_per_s") or result.get("operations_per_s") or 0.0)


def ratios(rounds: list[Found], name: str, share: str, way: str) -> dict[str, float]:
    """Return the median speed of a way, and its median ratios to local memory and to swap on disk."""
    results = [(each[name]["local"], each[name][share].get("disk", {}), each[name][share][way]) for each in rounds]
    found = {"rate": round(statistics.median(rate(result) for _, _, result in results), 1)}
    for key, at in (("ratio_to_local", 0), ("ratio_to_disk", 1)):
        if all(rate(each[at]) for each in results):
            found[key] = round(statistics.median(rate(each[2]) / rate(each[at]) for each in results), 2)
    return found


def summary(rounds: list[Found]) -> Found:
    """Return the ratios of all workloads that have a rate."""
    found: Found = {}
    for name in (name for name in rounds[0] if rate(rounds[0][name]["local"])):
        shares = [share for share in rounds[0][name] if share != "local"]
        found[name] = {
            share: {way: ratios(rounds, name, share, way) for way in rounds[0][name][share]} for share in shares
        }
    return found


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--mib", type=int, default=192, help="data of a program")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="on the local disk")
    parser.add_argument("--ways", default=",".join(WAYS), help="default: %(default)s")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="default: %(default)s")
    parser.add_argument("--shares", default="1,0.75,0.5", help="default: %(default)s")
    args = parser.parse_args()
    shares = [float(share) for share in args.shares.split(",")]
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        workloads = Workloads(Path(name), args.mib, args.seconds)
        (workloads.folder / "key").touch(mode=0o600)
        (workloads.folder / "key").write_text(secrets.token_hex(32))
        names, ways = args.workloads.split(","), args.ways.split(",")
        rounds = [measured(workloads, names, ways, shares) for _ in range(args.rounds)]
    machine = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "mib": args.mib}
    print(json.dumps({**machine, "summary": summary(rounds), "rounds": rounds}, indent=1))


if __name__ == "__main__":
    main()
