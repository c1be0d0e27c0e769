"""The jobs of the experiment, and the runs from which the controller learns before it. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate, combinations_with_replacement
from typing import NamedTuple


class PipelineKind(NamedTuple):
    """A kind of training with an input pipeline.

    Attributes:
        name: Of its jobs in Slurm.
        cpu_s: Processor seconds of a step, in which the input is decoded.
        wait_s: Seconds of a step in which the program waits, as for a GPU.
    """

    name: str
    cpu_s: float
    wait_s: float

    @property
    def use(self) -> float:
        """What a run uses of its core when it is alone, as a part of it."""
        return self.cpu_s / (self.cpu_s + self.wait_s)


KINDS = (
    PipelineKind("decode", 0.075, 0.025),
    PipelineKind("augment", 0.035, 0.065),
    PipelineKind("embed", 0.004, 0.096),
)


class PlannedJob(NamedTuple):
    """A job of one GPU.

    Attributes:
        name: Unique within a campaign.
        kind: One of KINDS, by its name.
        after: Seconds after the first submission at which it is submitted.
        node: The node that it requests; "": any.
    """

    name: str
    kind: str
    after: float
    node: str = ""


def workload(label: str, count: int, gap_s: float, seed: int) -> list[PlannedJob]:
    """Return jobs of all kinds, equally often, in random order and with exponential gaps, the same for every label.

    Args:
        label: Beginning of their names.
        count: Number of jobs.
        gap_s: Seconds between two submissions: exactly the mean of the gaps.
        seed: Of the order and the gaps.
    """
    chance = random.Random(seed)
    kinds = [KINDS[number % len(KINDS)].name for number in range(count)]
    chance.shuffle(kinds)
    gaps = [chance.expovariate(1.0) for _ in kinds[1:]]
    moments = [0.0, *accumulate(gap * gap_s * len(gaps) / sum(gaps) for gap in gaps)]
    return [PlannedJob(f"{label}-{at:03}", *each) for at, each in enumerate(zip(kinds, moments, strict=True))]


def calibration(nodes: Sequence[str], repeats: int) -> list[list[PlannedJob]]:
    """Return rounds of jobs: each kind alone on each node, then each pair of kinds together on a node.

    A round has one job or one pair on each node, and begins when the one before has ended.

    Args:
        nodes: Their names.
        repeats: How often each pair runs, each time on another node.
    """
    kinds = [kind.name for kind in KINDS]
    alone = [[(kinds[(at + turn) % len(kinds)],) for at in range(len(nodes))] for turn in range(len(kinds))]
    pairs = list(combinations_with_replacement(kinds, 2))
    together = [
        [pairs[(first + at + turn) % len(pairs)] for at in range(min(len(nodes), len(pairs) - first))]
        for turn in range(repeats)
        for first in range(0, len(pairs), len(nodes))
    ]
    rounds: Sequence[Sequence[tuple[str, ...]]] = [*alone, *together]
    return [
        [
            PlannedJob(f"calibration-{number:02}-{node}-{at}", kind, 0.0, node)
            for node, of_node in zip(nodes, groups, strict=False)
            for at, kind in enumerate(of_node)
        ]
        for number, groups in enumerate(rounds)
    ]
