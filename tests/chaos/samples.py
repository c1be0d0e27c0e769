"""What Slurm and the controller showed, about once a second during a whole run: by a thread of its own, which waits for nothing.

`free` counts GPUs of nodes on which Slurm starts jobs (idle or mixed, not drained, not in maintenance).
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tiresias.errors import TiresiasError

if TYPE_CHECKING:
    from tests.chaos.scene import Scene

PERIOD = 1.0  # seconds between two samples
HONEST = 3.0  # seconds by which the controller's clock may be off in a sample
STARTABLE = ("idle", "mixed")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pending job as squeue shows it."""

    id: str
    name: str
    user: str
    reason: str


@dataclass(frozen=True, slots=True)
class Sample:
    """names: of all jobs in the queue, by id. attained: GPU-seconds by id as the controller publishes them at `published`.
    nodes: host lists of the jobs that hold nodes, by id. guaranteed: ids of those that hold cells of their virtual cluster, and are
    not being preempted. owned: the cells of each virtual cluster by type. accounts: of all jobs in the queue, by id."""

    time: float
    names: dict[str, str]
    waiting: tuple[Waiting, ...]
    free: dict[str, int]
    published: float
    attained: dict[str, float]
    nodes: dict[str, str] = field(default_factory=dict)
    guaranteed: frozenset[str] = frozenset()
    owned: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """The controller answered, and its clock is right."""
        return abs(self.published - self.time) <= HONEST


def controller_outages(deaths: Iterable[Mapping[str, Any]], samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Return the times from the end of each life of the controller to the first cycle that the next one published."""
    published = sorted(one.published for one in samples)
    found = []
    for end in (float(one["time"]) for one in deaths if "life" in one):
        place = bisect_right(published, end)
        found.append((end, published[place] if place < len(published) else end))
    return found


class Sampler:
    def __init__(self, scene: Scene) -> None:
        self._scene, self.samples = scene, list[Sample]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def name(self, job_id: str, moment: float) -> str:
        """Which job bore the id at about that moment; "" where no sample shows it."""
        place = bisect_left([one.time for one in self.samples], moment)
        near = [*self.samples[place : place + 10], *reversed(self.samples[max(0, place - 10) : place])]
        return next((one.names[job_id] for one in near if job_id in one.names), "")

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            try:
                self.samples.append(self._sample())
            except (TiresiasError, subprocess.TimeoutExpired, OSError, ValueError):
                continue  # Slurm is away: the gap shows it

    def _sample(self) -> Sample:
        run, now = self._scene.cluster.run, time.time()
        queue = [
            line.split("|")
            for line in run(["squeue", "-h", "-r", "-o", "%i|%j|%u|%T|%r|%N|%a"], timeout=5).stdout.splitlines()
        ]
        nodes = run(["sinfo", "-h", "-N", "-p", "gpu", "-O", "NodeList:20,StateLong:30,GresUsed:40"], timeout=5).stdout
        status = self._scene.status()
        return Sample(
            now,
            {line[0]: line[1] for line in queue},
            tuple(Waiting(line[0], line[1], line[2], line[4]) for line in queue if line[3] == "PENDING"),
            _free(nodes, self._scene.cluster.spec.gpus_per_node),
            float(status.get("time", 0.0)),
            {str(one["id"]): float(one["attained"]) for one in status.get("jobs", ())},
            {line[0]: line[5] for line in queue if line[5]},
            frozenset(
                str(one["id"]) for one in status.get("jobs", ()) if one.get("guaranteed") and not one.get("phase")
            ),
            {one["name"]: _owned(one["levels"]) for one in status.get("virtual_clusters", ())},
            {line[0]: line[6] for line in queue},
        )


def _owned(levels: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    return {one["type"]: one["owned"] for one in levels if one["owned"]}


def _free(text: str, gpus_per_node: int = 4) -> dict[str, int]:
    found = {}
    for name, state, used in (line.split()[:3] for line in text.splitlines()):
        taken = int(next(iter(re.findall(r"gpu:(?:[^:(]+:)?(\d+)", used)), "0"))
        found[name] = gpus_per_node - taken if state in STARTABLE else 0
    return found
