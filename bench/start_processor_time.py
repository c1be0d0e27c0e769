"""Processor time of a start and of a preemption with its restart, by process, and the syncs and RPCs. Prints JSON. Needs root.

    python bench/start_processor_time.py [--starts 24] [--preemptions 8] [--before REVISION]

Processor time does not depend on what else the machine does, unlike the times of start_overhead.py. A private cluster of one node
with 4 GPUs for each revision, and its controller. Two parts:

start        --starts jobs of one GPU are submitted in bursts of four with tsbatch; each prints a line and ends
preemption   --preemptions times a job of all GPUs arrives while a training has them: the training is preempted, the job starts and
             ends, and the training starts again. The seconds are of all that

Milliseconds of processor time for each start, or each preemption, without what the same processes use while nothing happens:

controller          its process
reader              its process that reads with pyslurm
controller's COMMAND   Slurm's commands that it runs
slurmctld, slurmd   the daemons; slurmd's COMMAND: what slurmd runs, such as the Epilog; slurmctld's COMMAND: such as poke.sh
slurmstepd          of the batch step
supervisor          the batch script, and the supervisor that replaces it
program             the user's script and its children; of trainings without those that are still running
submission          tsbatch, sbatch and what enters the cluster
munged              authentication of all RPCs

syncs: fdatasync and fsync of the controller (perf stat); rpcs: requests of the controller's user to slurmctld (sdiag).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import process_times
from process_times import Ended, ProcessTimes
from start_overhead import Site, sites

EPILOG = "0.1"
BURST = 4
IDLE_S = 5.0  # how long the processes are observed while nothing happens
TRAINS_S = 2.0  # how long a training runs before it is preempted
SYNCS = ("syscalls:sys_enter_fdatasync", "syscalls:sys_enter_fsync")
THREAD = "worker["  # the name of a process that a thread of a daemon has forked, until it runs a program
DAEMONS = ("slurmctld", "slurmd", "munged")

Seconds = dict[str, float]


@dataclass
class Roles:
    """The processes of a site that do not end, by pid."""

    daemons: dict[int, str]
    init: int  # the parent of those whose own parent has ended

    @classmethod
    def of(cls, site: Site) -> Roles:
        """Return those of a site."""
        names = {pid: process_times.command_of(pid) for pid in process_times.children(site.cluster.init.pid)}
        controllers = list(process_times.children(site.controller.pid))
        python = [pid for pid in controllers if process_times.command_of(pid).startswith("python")]
        daemons = {pid: name for pid, name in names.items() if name in DAEMONS}
        return cls(daemons | dict(zip(python, ("controller", "reader"), strict=True)), site.cluster.init.pid)

    @property
    def controller(self) -> int:
        """The pid of the controller."""
        return next(pid for pid, role in self.daemons.items() if role == "controller")

    def used(self) -> Seconds:
        """Return the processor time of each role so far."""
        total: Seconds = defaultdict(float)
        for pid, role in self.daemons.items():
            total[role] += process_times.used(pid)
        return total

    def ended(self, found: Mapping[int, Ended]) -> Seconds:
        """Return the processor time of the processes that ended, by role."""
        total: Seconds = defaultdict(float)
        chains = [self._chain(one, found) for one in found.values() if one.pid not in self.daemons]
        own = [chain for chain in chains if chain[0].command == "sbatch" and chain[-1].parent == os.getpid()]
        submissions = {chain[-1].pid for chain in own}
        for chain in chains:
            if role := self._role(chain, submissions):
                total[role] += chain[0].seconds
        return total

    def _chain(self, one: Ended, found: Mapping[int, Ended]) -> list[Ended]:
        """Return a process and its parents, up to one that has not ended."""
        chain = [one]
        while (parent := found.get(chain[-1].parent)) and parent not in chain and parent.pid not in self.daemons:
            chain.append(parent)
        return chain

    def _role(self, chain: list[Ended], submissions: set[int]) -> str:
        if chain[-1].command.startswith("slurmstepd") and chain[-1].parent == self.init:
            return ("slurmstepd", "supervisor", "program")[min(len(chain) - 1, 2)]
        if chain[-1].pid in submissions:
            return "submission"
        top = self.daemons.get(chain[-1].parent, "")
        own = chain[0].command.startswith(THREAD)
        return (top if own else f"{top}'s {chain[0].command}") if top else ""


class Syncs:
    """The syncs of a process while the context is open; None where perf is missing."""

    def __init__(self, pid: int) -> None:
        events = [word for event in SYNCS for word in ("-e", event)]
        command = ["perf", "stat", "-x", ",", *events, "-p", str(pid)]
        self.count: int | None = None
        self._perf: subprocess.Popen[str] | None = None
        with contextlib.suppress(OSError):
            self._perf = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> Syncs:
        return self

    def __exit__(self, *_: object) -> None:
        if self._perf:
            self._perf.send_signal(signal.SIGINT)
            counts = re.findall(r"^(\d+),", self._perf.communicate()[1], re.MULTILINE)
            self.count = sum(map(int, counts)) if counts else None


def rpcs(site: Site) -> int:
    """Return the requests of the controller's user to slurmctld so far."""
    text = site.cluster.run(["sdiag"], user="slurm").stdout.partition("by user")[2]
    found = re.search(rf"^\s*{site.cluster.spec.daemon_user}\s*\(\s*\d+\)\s*count:(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0


@dataclass
class Measured:
    """What a part of the benchmark used: processor time by role, syncs, requests and seconds of wall time."""

    seconds: Seconds
    syncs: int | None
    rpcs: int
    wall: float

    @classmethod
    def of(cls, site: Site, roles: Roles, part: Callable[[], None]) -> Measured:
        """Run a part and return what it used."""
        before, asked, began = roles.used(), rpcs(site), time.monotonic()
        with Syncs(roles.controller) as syncs, ProcessTimes() as times:
            part()
        wall, after = time.monotonic() - began, roles.used()
        seconds = {role: after[role] - before[role] for role in after}
        for role, ended in roles.ended(times.ended).items():
            seconds[role] = seconds.get(role, 0.0) + ended
        return cls(seconds, syncs.count, rpcs(site) - asked, wall)

    def each(self, count: int, idle: Measured) -> dict[str, object]:
        """Return what each of `count` repetitions used beyond what is used while nothing happens. Times in milliseconds."""
        share = self.wall / idle.wall
        extra = {role: seconds - share * idle.seconds.get(role, 0.0) for role, seconds in self.seconds.items()}
        return {
            "milliseconds": {role: round(1e3 * each / count, 1) for role, each in sorted(extra.items())},
            "total": round(1e3 * sum(extra.values()) / count, 1),
            "syncs": None if self.syncs is None else round((self.syncs - share * (idle.syncs or 0)) / count, 1),
            "rpcs": round((self.rpcs - share * idle.rpcs) / count, 1),
            "wall": round(self.wall / count, 3),
        }


def start(site: Site, count: int) -> None:
    """Start jobs of one GPU, in bursts."""
    for _ in range(count // BURST):
        jobs = [site.submit("tsbatch", "short.sh", gpus=1) for _ in range(BURST)]
        for job in jobs:
            site.ended(job)
    site.quiet()


def preemption(site: Site, count: int) -> None:
    """Preempt a training several times."""
    training = site.submit("tsbatch", "training.sh")
    for number in range(count):
        site.until(lambda number=number: _runs(site, training) > number, "the training does not run")
        time.sleep(TRAINS_S)
        site.ended(site.submit("tsbatch", "short.sh"))
    site.until(lambda: _runs(site, training) > count, "the training does not run again")
    site.cluster.run(["scancel", training], user="alice")
    site.quiet()


def _runs(site: Site, job: str) -> int:
    file = site.folder / f"{job}.jsonl"
    return file.read_text().count('"event": "start"') if file.exists() else 0


def measured(site: Site, starts: int, preemptions: int) -> dict[str, object]:
    """Return the results of one site."""
    roles = Roles.of(site)
    start(site, BURST)  # all modules are compiled
    preemption(site, 1)
    idle = Measured.of(site, roles, lambda: time.sleep(IDLE_S))
    found: dict[str, object] = {
        "idle, milliseconds a second": {role: round(1e3 * each / idle.wall, 1) for role, each in idle.seconds.items()}
    }
    found["start"] = Measured.of(site, roles, lambda: start(site, starts)).each(starts // BURST * BURST, idle)
    found["preemption"] = Measured.of(site, roles, lambda: preemption(site, preemptions)).each(preemptions, idle)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=24)
    parser.add_argument("--preemptions", type=int, default=8)
    parser.add_argument(
        "--before", metavar="REVISION", help="another revision of this repository, on a cluster of its own"
    )
    args = parser.parse_args()
    with sites(args.before, [EPILOG]) as found:
        results = {name: measured(site, args.starts, args.preemptions) for name, site in found.items()}
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
