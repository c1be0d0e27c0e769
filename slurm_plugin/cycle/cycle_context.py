"""The state of one cycle: its facts and results, as they pass from stage to stage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.model import Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.partition_pools import PartitionPools
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.comments.writer import CommentWriter
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.cycle.job_memory import JobMemory
from tiresias.slurm_plugin.state.switches import Switched


class Decided(NamedTuple):
    """What follows from a snapshot.

    Attributes:
        managed: the managed jobs that were decided on.
        profiles: what is known of their traffic, by job id.
        change: epoch second at which the plan changes though nothing happens; inf for never.
    """

    managed: list[SlurmJob]
    profiles: Mapping[str, Summary]
    snapshot: Snapshot
    plan: Plan
    parts: tuple[PoolDecision, ...]
    change: float


@dataclass(slots=True)
class CycleContext:
    """One cycle.

    Attributes:
        config, site: as they are in this cycle.
        memory: what the controller remembers of jobs.
        pools, comments: of this configuration.
        paused: when, by which user and why preemptions were paused; None: they are not.
        began: epoch second.
        slurm: the snapshot of Slurm (observe).
        managed: its managed jobs that are not set aside (observe, then decide).
        notes: of earlier leaders (observe).
        decided: the plan, and what it was made from (decide).
        next_change: epoch second of the next cycle, where nothing happens before (act).
        unmanaged_releases: whether a job that the controller does not preempt releases GPUs; None: not known yet (act).
    """

    config: Config
    site: Site
    memory: JobMemory
    pools: PartitionPools
    comments: CommentWriter
    paused: Switched | None
    began: float
    slurm: SlurmSnapshot = field(default_factory=lambda: SlurmSnapshot(-math.inf, (), ()))
    managed: Sequence[SlurmJob] = ()
    notes: Sequence[str] = ()
    decided: Decided | None = None
    next_change: float | None = None
    unmanaged_releases: bool | None = None

    @property
    def why_paused(self) -> str:
        """Why no job is preempted; "" where preemptions are not paused."""
        return f"preemptions are paused {self.paused.words}" if self.paused else ""


class CycleStage(Protocol):
    """A part of a cycle."""

    def run(self, context: CycleContext) -> None:
        """Use the results of the stages before, and fill in those of this one."""
