"""How long the trained placement takes, over the servers of the cluster. One core; prints JSON.

    python bench/learned_placement.py [--repeat 20]

A full cluster of servers with 8 GPUs, 16 on each leaf switch, of which every third has its GPUs freed; and a network with random
weights of the default sizes. Jobs request one GPU. Times are processor time of the one thread.

first_ms      the first task of a decision: all servers are embedded
task_ms       each further task, a job of its own: one partition has changed since the last one. Bar: 1 ms
of_job_ms     each task of a job of 16 GPUs
batch_s       the scores of 1,000 tasks that are observed in one state, by one pass of the network. Bar: 0.3 s
one_by_one_s  1,000 jobs of one GPU in one decision, each in the state that the ones before it leave
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is imported

import numpy as np
from decide import GPUS_PER_NODE, snapshot

from tiresias.scheduler.model import ANYWHERE, Snapshot
from tiresias.scheduler.place.free_capacity import FreeCapacity
from tiresias.scheduler.place.learned.cluster_graph import TIER_BANDWIDTHS, graphs_of
from tiresias.scheduler.place.learned.placement_agents import EmbeddedCluster
from tiresias.scheduler.place.learned.task_observation import FEATURES, network_sizes
from tiresias.scheduler.place.learned.weights_file import PlacementWeights
from tiresias.scheduler.place.placements import style_code
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.topology_tree import LEAF, Topology

SERVERS, LEAF_SERVERS, BATCH, LARGE = (64, 1024), 16, 1000, 16
STYLE = style_code("learned")


def random_weights(topology: Topology) -> PlacementWeights:
    sizes, rng = network_sizes(), np.random.default_rng(0)
    parameters = {
        name: (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32) for name, shape in sizes.shapes().items()
    }
    fingerprint = graphs_of(topology).fingerprint
    return PlacementWeights(sizes, parameters, FEATURES, LEAF, TIER_BANDWIDTHS, fingerprint, {})


def cluster(servers: int) -> Snapshot:
    busy = snapshot(8 * servers, servers, True, 0)
    rows = np.arange(servers)
    topology = Topology.of_groups(busy.nodes.gpus, [rows // LEAF_SERVERS, rows // (16 * LEAF_SERVERS)])
    gpus = np.where(rows % 3 == 0, GPUS_PER_NODE, 0)
    nodes = replace(busy.nodes, topology=topology, free=Resources.of(gpus, gpus * 16.0, gpus * 125e3))
    return replace(busy, nodes=nodes, trained=random_weights(topology))


class Bench:
    """A decision in which jobs of one GPU are placed one after the other. GPUs are given back once none is left."""

    def __init__(self, given: Snapshot) -> None:
        self.placer, self._full = Placer(given), given.nodes.free.amount
        self.kind = self.placer.kind(ANYWHERE, STYLE)
        self.space = self.fresh()

    def fresh(self) -> FreeCapacity:
        self.placer.surroundings.by_space.clear()
        return self.placer.space(self._full.copy())

    def place(self, gpus: int, space: FreeCapacity) -> None:
        placement = self.placer.place(self.kind, gpus, space)
        if placement is None:
            raise SystemExit("the bench has placed more jobs than fit")
        space.take(self.kind, placement)

    def one_by_one(self) -> None:
        space = self.fresh()
        for at in range(BATCH):
            if at % (self._full[:, 0].sum() // 2) == 0:
                space = self.fresh()
            self.place(1, space)


class Batch:
    """Tasks that are observed in one state."""

    def __init__(self, given: Snapshot) -> None:
        assert isinstance(given.trained, PlacementWeights)
        topology, capacity = given.nodes.topology, np.array([GPUS_PER_NODE, 128.0, 1e6])
        self._graphs, self._network = graphs_of(topology), given.trained.network()
        load = np.zeros(self._graphs.links, np.float32)
        free = given.nodes.free.amount
        self._cluster = EmbeddedCluster(self._network, self._graphs, topology.gpus, free, capacity, load)
        rng, servers = np.random.default_rng(0), len(self._graphs.parts[0].servers)
        self._task, self._choice, self._reach = (
            rng.random((BATCH, rows, len(FEATURES[name]))).astype(np.float32)
            for name, rows in (("task", 1), ("choice", servers), ("reach", len(self._graphs.parts)))
        )

    def scores(self) -> None:
        partitions = self._cluster.partitions(self._task)
        own, rows = partitions[:, :1], self._graphs.parts[0].servers
        self._network.server_scores(self._cluster.servers[rows], self._choice, own, self._task)
        self._network.forward_scores(partitions, self._reach, own, self._task)


def best_of(repeat: int, work: Callable[[], None]) -> float:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def measure(servers: int, repeat: int) -> dict[str, float]:
    given = cluster(servers)
    one = Bench(given)
    one.one_by_one()  # builds the graphs
    first = best_of(repeat, lambda: one.place(1, one.fresh()))
    warm, large = one.fresh(), one.fresh()
    one.place(1, warm)
    one.place(1, large)
    tasks = 40
    further = best_of(1, lambda: [one.place(1, warm) for _ in range(tasks)] and None) / tasks
    of_job = best_of(2, lambda: one.place(LARGE, large)) / LARGE
    return {
        "servers": servers, "first_ms": first * 1e3, "task_ms": further * 1e3, "of_job_ms": of_job * 1e3,
        "batch_s": best_of(max(repeat // 5, 1), Batch(given).scores),
        "one_by_one_s": best_of(max(repeat // 5, 1), one.one_by_one),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=20)
    repeat = parser.parse_args().repeat
    found = [{key: round(value, 3) for key, value in measure(servers, repeat).items()} for servers in SERVERS]
    print(json.dumps({"python": platform.python_version(), "numpy": np.__version__, "learned": found}, indent=2))


if __name__ == "__main__":
    main()
