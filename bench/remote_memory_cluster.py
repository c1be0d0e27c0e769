"""Memory use of a cluster without and with remote memory, by the code that clients and donors use. Prints JSON.

    python bench/remote_memory_cluster.py [--seeds 3] [--seconds 400] [--region peak|missing] [--chunk-mib 16]

The set-up of the thesis (section 2.7.5): 32 machines with 64 GB, 8 GB headroom, slabs of 1 GB, and 90 containers, 15 each of six
workloads. Half of them have memory for all of the workload's peak, 30% for 75% of it and 20% for 50%. Each is placed on a random
machine that has memory for it. The workloads are emulated: one grows to its peak and touches chunks of it, the least recently used
chunk is paged out, and a swap slot is kept until the chunk is written again, as Linux does. Slabs, the choice of donors, evictions
and what donors lend are not emulated: `services/remote_memory/slabs` decides them.

use            memory of the machines that is used, mean over the last third of the time; `ready` slabs of donors are not counted
max/median     of the machines' use
filled         part of the lent slabs that has chunks which a container still needs

--region: the size of the remote region of a container: `peak`, that of its whole workload, as of a swap device that is larger than
what is missing; or `missing`, what the container lacks, as `tsbatch --remote-mem` asks for.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import OrderedDict
from random import Random
from typing import Any, NamedTuple

from tiresias.services.remote_memory.slabs.batch_eviction import eviction_candidates, least_active
from tiresias.services.remote_memory.slabs.donor_choice import candidate_donors, emptiest_donor
from tiresias.services.remote_memory.slabs.donor_memory import DonorMemory, SlabCounts
from tiresias.services.remote_memory.slabs.slab_table import SlabMapping, SlabTable

GIB = 1 << 30
MACHINES, MACHINE_GB, HEADROOM_GB, CONTAINERS_OF_EACH = 32, 64, 8, 15
SYSTEM_GB = 2.7  # of an idle machine: the thesis prints 22.5 for max/min and 94% for the fullest machine
SHARES = (1.0,) * 45 + (0.75,) * 27 + (0.5,) * 18
PAPER = {"use": [0.408, 0.60], "gain": 1.47, "max/median": [2.36, 1.6], "max/min": [22.5, 2.7]}


class Workload(NamedTuple):
    """A workload of the thesis.

    Attributes:
        peak_gb: Its memory (sections 2.7.1 and 2.7.3).
        writes: Part of the accesses that write: the SETs of memcached; of the others chosen here.
        grows_s: Seconds until its peak.
        skew: Of 100 accesses how many go to the fifth of the memory that is used most; 20: all is used alike.
    """

    peak_gb: float
    writes: float
    grows_s: int
    skew: int


WORKLOADS = {
    "voltdb": Workload(11.5, 0.5, 120, 60),
    "memcached ETC": Workload(9.0, 0.05, 120, 80),
    "memcached SYS": Workload(14.5, 0.25, 300, 80),
    "powergraph": Workload(9.0, 0.3, 60, 20),
    "graphx": Workload(12.0, 0.3, 90, 20),
    "spark": Workload(16.0, 0.5, 120, 20),
}


class Container:
    """A container with its pages, in chunks.

    Args:
        work: Its workload.
        share: The part of the peak that its memory holds.
        machine: The machine on which it runs.
        region: `peak` or `missing`.
        chunks_of_gb: Chunks of a GB.
        random: The source of its accesses.
    """

    def __init__(
        self, work: Workload, share: float, machine: int, region: str, chunks_of_gb: int, random: Random
    ) -> None:
        self.work, self.share, self.machine, self._random = work, share, machine, random
        self.peak = int(work.peak_gb * chunks_of_gb)
        self.limit = int(self.peak * share)
        swap = max(1, self.peak if region == "peak" else self.peak - self.limit)
        self.table = SlabTable(swap, chunks_of_gb)
        self._resident: OrderedDict[int, None] = OrderedDict()
        self._slot_of: dict[int, int] = {}
        self._used: list[bool] = [False] * swap
        self._slots, self._cursor, self._grown = 0, 0, 0
        self.remote_reads, self.disk_reads, self.disk_writes = 0, 0, 0

    @property
    def resident(self) -> int:
        """The chunks in its memory."""
        return len(self._resident)

    @property
    def needed(self) -> int:
        """The chunks of its slabs that are in use."""
        return sum(slot in self.table.remote for slot in self._slot_of.values())

    def run(self, now: int, accesses: int) -> None:
        """Let the workload run for a second."""
        target = min(self.peak, self.peak * (now + 1) // self.work.grows_s)
        while self._grown < target:
            self._touch(self._grown, True, now)
            self._grown += 1
        if self.share == 1.0:
            return
        busy = max(1, self._grown // 5)
        for _ in range(accesses if self._grown else 0):
            chunk = self._random.randrange(busy if self._random.random() * 100 < self.work.skew else self._grown)
            self._touch(chunk, self._random.random() < self.work.writes, now)

    def _touch(self, chunk: int, writes: bool, now: int) -> None:
        if chunk in self._resident:
            self._resident.move_to_end(chunk)
        else:
            self._page_in(chunk, now)
            self._resident[chunk] = None
        if writes and (slot := self._slot_of.pop(chunk, None)) is not None:
            self._free(slot)
        while len(self._resident) > self.limit:
            self._page_out(next(iter(self._resident)), now)

    def _page_in(self, chunk: int, now: int) -> None:
        slot = self._slot_of.get(chunk)
        if slot is None:
            return
        self._request(slot, now)
        if slot in self.table.remote:
            self.remote_reads += 1
        else:
            self.disk_reads += 1
        if 2 * self._slots > len(self._used):  # as Linux frees slots once half of the swap is used
            del self._slot_of[chunk]
            self._free(slot)

    def _page_out(self, chunk: int, now: int) -> None:
        del self._resident[chunk]
        if chunk in self._slot_of:  # its content is there already
            return
        slot = self._slot_of[chunk] = self._next_slot()
        self._request(slot, now)
        if self.table.mapping(slot // self.table.slab_pages):
            self.table.remote.set(slot)
        else:
            self.disk_writes += 1

    def _next_slot(self) -> int:
        if self._slots == len(self._used):  # as Linux does, take back those of chunks that are in memory
            for chunk in [each for each in self._slot_of if each in self._resident]:
                self._free(self._slot_of.pop(chunk))
        while self._used[self._cursor]:
            self._cursor = (self._cursor + 1) % len(self._used)
        self._used[self._cursor] = True
        self._slots += 1
        return self._cursor

    def _free(self, slot: int) -> None:
        self._used[slot] = False
        self._slots -= 1

    def _request(self, slot: int, now: int) -> None:
        self.table.record(slot // self.table.slab_pages, REQUESTS, now)


REQUESTS = 32  # a chunk is read and written by several requests; more than HOT_SLAB / alpha makes a slab hot at once


class Machine:
    """A machine with its donor.

    Attributes:
        mapped: The slabs that it lends, with the container and its number of the slab.
        used: Bytes that it uses itself.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.mapped: dict[int, tuple[Container, int]] = {}
        self.used = 0
        self._next, self._ready, self.evicted = 0, 0, 0
        self._memory = DonorMemory(MACHINE_GB * GIB, GIB, HEADROOM_GB * GIB, MACHINE_GB, 2)

    def counts(self) -> SlabCounts:
        """Return the slabs of the donor."""
        return SlabCounts(self._ready, len(self.mapped), 0)

    def free_slabs(self) -> int:
        """Return how many slabs can be mapped."""
        return self._memory.available_slabs(self.counts())

    def measure(self, used: int, now: int, random: Random) -> None:
        """Measure the memory, and release and evict slabs."""
        self.used = used
        self._memory.measure(used, now)
        decision = self._memory.decide(self.counts())
        self._ready += decision.allocate - decision.release
        if decision.evict:
            asked = eviction_candidates(sorted(self.mapped), decision.evict, random)
            activity = {handle: table.activity(slab, now) for handle in asked for table, slab in [self._table(handle)]}
            for handle in least_active(asked, activity, decision.evict):
                container, slab = self.mapped.pop(handle)
                container.table.unmap(slab)
                self.evicted += 1

    def _table(self, handle: int) -> tuple[SlabTable, int]:
        container, slab = self.mapped[handle]
        return container.table, slab

    def lend(self, container: Container, slab: int) -> None:
        """Map a slab."""
        self._next += 1
        self._ready = max(0, self._ready - 1)
        self.mapped[self._next] = container, slab
        container.table.map(slab, SlabMapping(self.name, self._next))


def placed(region: str, chunks_of_gb: int, random: Random) -> list[Container]:
    """Return the containers on random machines."""
    works = [work for work in WORKLOADS.values() for _ in range(CONTAINERS_OF_EACH)]
    shares, free = list(SHARES), [MACHINE_GB - SYSTEM_GB] * MACHINES
    random.shuffle(shares)
    found = []
    for work, share in sorted(zip(works, shares, strict=True), key=lambda each: random.random()):
        machine = random.choice([at for at in range(MACHINES) if free[at] >= work.peak_gb * share])
        free[machine] -= work.peak_gb * share
        found.append(Container(work, share, machine, region, chunks_of_gb, Random(random.random())))
    return found


def map_hot(container: Container, machines: dict[str, Machine], now: int, random: Random) -> None:
    """Map the hot slabs of a container at other machines."""
    others = [name for name in machines if name != f"m{container.machine}"]
    for slab in container.table.hot(now):
        for asked in candidate_donors(others, container.table.donors(), random):
            if chosen := emptiest_donor({name: machines[name].free_slabs() for name in asked}):
                machines[chosen].lend(container, slab)
                break


def simulated(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return the results of one placement."""
    random = Random(seed)
    chunks_of_gb = 1024 // args.chunk_mib
    containers = placed(args.region, chunks_of_gb, random)
    machines = {f"m{at}": Machine(f"m{at}") for at in range(MACHINES)}
    before, after = [0.0] * MACHINES, [0.0] * MACHINES
    last = range(args.seconds * 2 // 3, args.seconds)
    for now in range(args.seconds):
        for each in containers:
            each.run(now, args.accesses)
        resident = [SYSTEM_GB] * MACHINES
        for each in containers:
            resident[each.machine] += each.resident / chunks_of_gb
        for at, machine in enumerate(machines.values()):
            machine.measure(int(resident[at] * GIB), now, random)
        for each in containers:
            map_hot(each, machines, now, random)
        if now in last:
            for at, machine in enumerate(machines.values()):
                before[at] += resident[at] / len(last) / MACHINE_GB
                after[at] += (resident[at] + len(machine.mapped)) / len(last) / MACHINE_GB
    pages = [(each.remote_reads, each.disk_reads, each.disk_writes) for each in containers]
    remote, disk, unmapped = (sum(column) for column in zip(*pages, strict=True))
    slabs = sum(len(each.mapped) for each in machines.values())
    return {
        "without": balance(before),
        "with": balance(after),
        "gain": round(sum(after) / sum(before), 3),
        "slabs": slabs,
        "filled": round(sum(each.needed for each in containers) / max(1, slabs * chunks_of_gb), 3),
        "evicted": sum(each.evicted for each in machines.values()),
        "reads from donors": round(remote / max(1, remote + disk), 4),
        "writes before a slab was mapped": unmapped,
    }


def balance(use: list[float]) -> dict[str, float]:
    """Return the mean of the machines' use and its balance."""
    return {
        "use": round(statistics.mean(use), 3),
        "max/median": round(max(use) / statistics.median(use), 2),
        "max/min": round(max(use) / min(use), 2),
    }


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="placements")
    parser.add_argument("--seconds", type=int, default=400, help="simulated seconds of each")
    parser.add_argument("--accesses", type=int, default=40, help="accesses of a container to chunks in a second")
    parser.add_argument("--chunk-mib", type=int, default=16, help="size of a chunk; divides 1024")
    parser.add_argument("--region", choices=("peak", "missing"), default="peak", help="size of the remote regions")
    args = parser.parse_args()
    runs = [simulated(args, seed) for seed in range(1, args.seeds + 1)]
    mean = {
        side: {
            key: round(statistics.mean(run[side][key] for run in runs), 3) for key in ("use", "max/median", "max/min")
        }
        for side in ("without", "with")
    }
    gain = round(statistics.mean(run["gain"] for run in runs), 3)
    print(json.dumps({"region": args.region, "paper": PAPER, "mean": {**mean, "gain": gain}, "runs": runs}, indent=2))


if __name__ == "__main__":
    main()
