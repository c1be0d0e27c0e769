"""The sections of the configuration: every option is declared once, here or in PolicyConfig."""

# ruff: noqa: RUF009  (the calls in dataclass defaults make dataclass fields)

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiresias.protocol import site_configuration
from tiresias.slurm_plugin.config.fields import (
    are_cluster_sockets,
    are_levels,
    are_names,
    are_part_types,
    are_partitions,
    choice,
    folder,
    option,
    placement,
    seconds,
)

if TYPE_CHECKING:
    from tiresias.scheduler.config import PolicyConfig
    from tiresias.slurm_plugin.config.virtual_cluster_tables import VirtualClusterConfig

TABLES = {"tables": True}  # metadata of a field that is not a single option


def policy_class() -> type[PolicyConfig]:
    """Return the section [policy], which the scheduler declares."""
    from tiresias.scheduler.config import PolicyConfig  # imports numpy, which views do not need

    return PolicyConfig


@dataclass(frozen=True, slots=True)
class Paths:
    """[paths]: the folders of the controller and of the jobs."""

    state: Path = folder(
        "/var/lib/tiresias",
        "the journal: service, runs and open transitions; on a shared file system where two controllers run",
    )
    run: Path = folder(site_configuration.RUN, "control.sock, poke.sock, lease and primary; on this host")
    control: Path = folder(site_configuration.CONTROL, "the jobs' control folders; on the shared file system")
    checkpoints: Path = folder(
        site_configuration.CHECKPOINTS, "the jobs' checkpoint folders; on the shared file system"
    )


@dataclass(frozen=True, slots=True)
class PreemptionConfig:
    """[preemption]: how jobs are preempted and started."""

    signal: str = choice("USR2", "the checkpoint signal", "USR1", "USR2", "HUP")
    deadline: float = seconds(120.0, "seconds from the signal to a committed checkpoint; a job that takes longer stays")
    final_codes: tuple[int, ...] = option(
        (93,),
        "exit codes of a job's script after which the job is neither requeued nor resumed; a job's TIRESIAS_FINAL_CODES "
        "replaces them",
        "a list of exit codes from 1 to 255, without 99",
        lambda codes: all(0 < code < 256 and code != 99 for code in codes),
    )
    start_timeout: float = seconds(30.0, "seconds from a release to RUNNING before the job is held again")
    backoff: float = seconds(60.0, "seconds before such a job is tried again; doubles up to 16 times", zero=True)
    rank_timeout: float = seconds(600.0, "seconds from a start within which the ranks of an elastic job must register")


@dataclass(frozen=True, slots=True)
class State:
    """[state]: how long the journal keeps ended jobs."""

    keep_days: int = option(
        365,
        "days for which ended jobs and their runs are remembered, which policies learn from; 0: for ever",
        "a whole number, 0 or more",
        lambda value: value >= 0,
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """[placement]: on which nodes jobs are placed."""

    packlimit: float = option(
        0.4,
        "the largest tensor's share of a model above which a job with parameter servers is kept on the fewest nodes",
        "a number from 0 to 1",
        lambda value: 0 <= value <= 1,
    )
    topology: str = option(
        "",
        "the topology of topology.yaml that counts, from Slurm 25.05 on; none: the one with cluster_default",
        "a name of a topology",
        lambda value: not value or are_names((value,)),
    )
    levels: tuple[str, ...] = option(
        ("rack|leaf", "pod|row"),
        "how features of nodes begin that name their leaf switch or rack, then the group above it, and so on; where Slurm has a "
        "topology, that counts",
        'a list of beginnings, several of one level with "|" between them',
        are_levels,
    )
    islands: tuple[str, ...] = option(
        ("nvlink", "socket"),
        "features of nodes that state into how many islands their GPUs are divided, such as socket:2; the nearest GPUs first",
        "a list of names",
        are_names,
    )
    part_types: tuple[str, ...] = option(
        (),
        "GPU types that name the parts of nodes, such as s0 and s1, in the order of the GPUs' indexes; virtual clusters can then "
        "own parts, of the last level of `islands` or of the one of which the node has as many; from Slurm 24.11 on",
        "a list of names, none or several different ones",
        are_part_types,
    )
    style: str = placement(
        "skew",
        "how jobs are put on nodes: by what they send, or all alike; others than consolidate, spread, least_interference and "
        "fastest_nodes (by the measured speeds of nodes) are for comparison",
        "skew",
    )
    weights: str = option(
        "",
        "file of the trained network of style learned; where it cannot be used, least_interference places the jobs, and an alarm "
        "states why",
        'an absolute path, or ""',
        lambda value: not value or (value.startswith("/") and value.isprintable()),
    )
    unknown: str = choice(
        "consolidate", "how jobs are placed of whose tensors nothing is known", "consolidate", "spread"
    )
    trial: str = choice(
        "two_nodes",
        "where the first job of a kind runs, whose traffic tsrun records: what stays inside of a node is not seen",
        "two_nodes",
        "anywhere",
    )
    patience: float = seconds(
        300.0,
        "seconds that a job waits for the fewest nodes of which it is known that more would slow it down",
        zero=True,
    )
    bandwidth: float = option(
        0.0,
        "Gbit/s of a node's network, one way, for judging all-reduce jobs; 0: as the nodes' adapters report",
        "a finite number, 0 or more",
        lambda value: math.isfinite(value) and value >= 0,
    )
    failing_nodes: str = choice(
        "avoid",
        "what happens to nodes on which runs of several users fail more often than their scripts do elsewhere: they are used only "
        "where no others suffice, or only shown",
        "avoid",
        "show",
    )
    stragglers: str = choice(
        "keep",
        "what happens to a job with ranks slower than half of the median: nothing, or it is preempted and started again without "
        "their nodes, where that gains more within an hour than it costs",
        "keep",
        "replace",
    )


@dataclass(frozen=True, slots=True)
class Exempt:
    """[exempt]: jobs in managed partitions that only Slurm schedules."""

    users: tuple[str, ...] = option((), "users whose jobs are Slurm's alone", "a list of names of users", are_names)
    accounts: tuple[str, ...] = option(
        (), "accounts whose jobs are Slurm's alone", "a list of names of accounts", are_names
    )


@dataclass(frozen=True, slots=True)
class Rpc:
    """[rpc]: the limit on calls to slurmctld."""

    rate: float = option(
        100.0,
        "calls to slurmctld a second, on average; 0: no limit. With Slurm's own limit (rl_enable), at most four fifths of that",
        "a finite number, 0 or more",
        lambda value: math.isfinite(value) and value >= 0,
    )
    burst: int = option(
        500,
        "calls to slurmctld at once",
        "a whole number, 20 or more: a preemption with a poll of all jobs takes a dozen",
        lambda value: value >= 20,
    )


@dataclass(frozen=True, slots=True)
class Comment:
    """[comment]: the reason of a waiting job in squeue."""

    field: str = choice(
        "auto",
        "where squeue shows why a job waits: AdminComment where the controller's user is an Administrator, else Comment where "
        "the job's owner gave none",
        "auto",
        "AdminComment",
        "Comment",
        "none",
    )
    interval: float = seconds(300.0, "seconds between two texts of one job at least")
    per_minute: int = option(
        120, "calls to slurmctld a minute for comments, at most", "a whole number, 1 or more", lambda value: value >= 1
    )


@dataclass(frozen=True, slots=True)
class ProgressConfig:
    """[progress]: what jobs report of their progress."""

    timed: float = seconds(
        10.0,
        "seconds of a run over which its steps are timed before its reports become a claim of the time left; the reports are "
        "read at most once in a fifth of it",
    )


@dataclass(frozen=True, slots=True)
class IdleGpusConfig:
    """[idle_gpus]: jobs that hold GPUs and do not use them. The supervisors of jobs read it at their submission."""

    action: str = choice(
        "show",
        "off: the use of GPUs is not reported; show: jobs that do not use their GPUs are shown; warn: so, with a line in the job's "
        "output and its comment; demote: so, and later they are ranked after all other jobs until they use their GPUs",
        "off",
        "show",
        "warn",
        "demote",
    )
    below: float = option(
        0.05,
        "the use below which a GPU counts as unused: utilisation by NVML, else CPUs in use for each GPU",
        "a number above 0, at most 1",
        lambda value: 0 < value <= 1,
    )
    warn_after: float = seconds(1800.0, "seconds without use of any of its GPUs after which a job is shown and warned")
    demote_after: float = seconds(3600.0, "seconds after which it is demoted; not before it is warned")
    interval: float = seconds(60.0, "seconds between two reports of a job; the first one is made after as long a run")


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration; the keys outside of sections are declared here."""

    mode: str = choice(
        "shadow",
        "shadow only reads and reports; assist leaves the order and the starts to Slurm, and preempts jobs for those that Slurm "
        "ranks first; exact admits, pins and preempts",
        "shadow",
        "assist",
        "exact",
    )
    shadow_of: str = choice("exact", "the mode whose decisions mode shadow reports", "assist", "exact")
    partitions: tuple[str, ...] = option(
        ("gpu",), "the managed partitions; no other is touched", "a list of names of partitions", are_partitions
    )
    clusters: tuple[str, ...] = option(
        (),
        "the controllers that tiresias status --clusters shows",
        "a list of NAME=SOCKET, each name once, each socket an absolute path",
        are_cluster_sockets,
    )
    service_report: str = option(
        "",
        "the folder in which the manager of the parameter service reports (its key report); none: no service is shown",
        'an absolute path, or ""',
        lambda value: not value or (value.startswith("/") and value.isprintable()),
    )
    backend: str = choice("auto", "how to call Slurm; auto prefers pyslurm", "auto", "pyslurm", "commands")
    period: float = seconds(30.0, "seconds between cycles when nothing wakes the controller")
    poll: float = seconds(0.1, "seconds between polls of jobs that are being preempted or started")
    paths: Paths = field(default_factory=Paths)
    policy: PolicyConfig = field(default_factory=lambda: policy_class()())
    preemption: PreemptionConfig = field(default_factory=PreemptionConfig)
    placement: Placement = field(default_factory=Placement)
    exempt: Exempt = field(default_factory=Exempt)
    rpc: Rpc = field(default_factory=Rpc)
    comment: Comment = field(default_factory=Comment)
    progress: ProgressConfig = field(default_factory=ProgressConfig)
    idle_gpus: IdleGpusConfig = field(default_factory=IdleGpusConfig)
    state: State = field(default_factory=State)
    partition_policies: tuple[tuple[str, PolicyConfig], ...] = field(default=(), metadata=TABLES)
    virtual_clusters: tuple[VirtualClusterConfig, ...] = field(default=(), metadata=TABLES)

    @property
    def acts(self) -> bool:
        """Whether the controller changes jobs; else it only watches (mode shadow)."""
        return self.mode != "shadow"

    @property
    def admits(self) -> bool:
        """Whether the controller alone starts jobs, so that it holds those that wait (mode exact)."""
        return self.mode == "exact"

    @property
    def assists(self) -> bool:
        """Whether Slurm orders and starts the jobs, and the controller only preempts some for those that Slurm ranks first.

        In mode shadow: whether it would.
        """
        return "assist" in (self.mode, self.shadow_of if self.mode == "shadow" else "")

    def policy_of(self, partition: str) -> PolicyConfig:
        """Return the policy of a partition; of the first where several are separated by commas."""
        return dict(self.partition_policies).get(partition.partition(",")[0], self.policy)

    def virtual_cluster_of(self, account: str, qos: str, partition: str) -> str:
        """Return the name of the virtual cluster of a job; "": it belongs to none."""
        return next((each.tenant.name for each in self.virtual_clusters if each.has(account, qos, partition)), "")

    @property
    def lease_seconds(self) -> float:
        """Seconds for which etc/job_submit.lua relies on the controller after a cycle: three cycles, 15 s at least."""
        return max(3 * self.period, 15.0)

    @property
    def leader_seconds(self) -> float:
        """Seconds without a renewed lease after which a standby takes over; with the takeover itself less than two periods."""
        return max(1.5 * self.period, 3.0)

    @property
    def admission_wait(self) -> int:
        """Seconds by which job_submit.lua delays a new job. A lease and an odd remainder, so that the controller can
        distinguish this delay from a begin time that the user requested."""
        return int(self.lease_seconds) + 7


SECTIONS: dict[str, Callable[[], Any]] = {
    "": lambda: Config,
    "paths": lambda: Paths,
    "policy": policy_class,
    "preemption": lambda: PreemptionConfig,
    "placement": lambda: Placement,
    "exempt": lambda: Exempt,
    "rpc": lambda: Rpc,
    "comment": lambda: Comment,
    "progress": lambda: ProgressConfig,
    "idle_gpus": lambda: IdleGpusConfig,
    "state": lambda: State,
}
