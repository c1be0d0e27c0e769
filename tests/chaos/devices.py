"""The GPUs that the jobs of a campaign saw, compared with the parts of nodes that the starts in the journal selected.

misplaced   runs whose CUDA_VISIBLE_DEVICES has other GPUs than those of the parts that their start selected

Not every selection can be stated (slurm_plugin/state/part_pins.py). Of a start on one node that takes GPUs of several parts, the
number is compared, as the jobs request GPUs for each task. One on several nodes that takes different parts is not judged, nor one
of several parts and different numbers: Slurm may divide the tasks otherwise. Nor is a job of `--exclusive`, which holds all GPUs of
its node and sees those that it requests.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.guarantees import ROUNDED_S, start_of
from tests.chaos.tenants import GPUS_PER_PART, PART_TYPES


@dataclass(frozen=True, slots=True)
class SeenDevices:
    """What a run noted on its first node (scene.NOTE_DEVICES). time: in whole seconds. devices: the indexes of its GPUs there."""

    name: str
    job: str
    time: float
    node: str
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SelectedParts:
    """The GPUs of a start on the first node of a run, by part; `gpus` () where it is on other nodes, or states no parts."""

    seen: SeenDevices
    gpus: tuple[int, ...]


def seen_devices(folder: Path) -> list[SeenDevices]:
    """Return what all runs noted; a line that a kill cut off is left out."""
    lines = ((path.name, line.split()) for path in sorted(folder.iterdir()) for line in path.read_text().splitlines())
    return [
        SeenDevices(name, words[0], float(words[1]), words[2], tuple(map(int, words[3].split(","))))
        for name, words in lines
        if len(words) == 4
    ]


def selected_parts(journal: sqlite3.Connection, seen: Iterable[SeenDevices]) -> Iterator[SelectedParts]:
    """Yield the parts of the start that led to each run."""
    for one in seen:
        nodes, parts = start_of(journal, one.job, one.time + ROUNDED_S, "nodes, parts") or ("[]", "[]")
        by_node = dict(zip((node for node, _ in json.loads(nodes)), map(tuple, json.loads(parts)), strict=False))
        yield SelectedParts(one, by_node.get(one.node, ()) if _is_stated(by_node.values()) else ())


def _is_stated(by_node: Collection[tuple[int, ...]]) -> bool:
    """Return whether a start with these GPUs of the parts of each node states what each node gives."""
    used = set(map(_used, by_node))
    is_of_one_part = all(sum(parts) == 1 for parts in used)
    return len(by_node) == 1 or (len(used) == 1 and (is_of_one_part or len(set(map(sum, by_node))) == 1))


def misplaced(found: Iterable[SelectedParts]) -> list[str]:
    """Return the runs on other GPUs than those of their parts."""
    return [
        f"{one.seen.name} ({one.seen.job}): GPUs {one.seen.devices} of {one.seen.node}, {one.gpus} of the parts selected"
        for one in found
        if one.gpus and not _is_in(one.seen.devices, one.gpus)
    ]


def _used(gpus: tuple[int, ...]) -> tuple[bool, ...]:
    return tuple(map(bool, gpus))


def _is_in(devices: tuple[int, ...], gpus: tuple[int, ...]) -> bool:
    if sum(_used(gpus)) > 1:
        return len(devices) == sum(gpus)
    count = Counter(device // GPUS_PER_PART for device in devices)
    return tuple(count[part] for part in range(len(PART_TYPES))) == gpus
