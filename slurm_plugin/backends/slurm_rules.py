"""Slurm's own rules about which jobs may start: partitions, reservations, licences, QOS and associations, in Slurm's words.

Numbers without a limit are `inf`, and a TRES without a limit is absent from its mapping. TRES are named as Slurm names them: "cpu",
"mem" (MB), "node", "billing", "gres/gpu", "gres/gpu:v100", "license/matlab". Limits of minutes are in minutes, all else in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

Tres = Mapping[str, float]
NO_TRES: Tres = {}
YEAR = 365 * 86400.0  # seconds: the time limit that Slurm assumes of a job without one, where it looks at reservations


@dataclass(frozen=True, slots=True)
class Partition:
    """Attributes: `allow_*` None: all are allowed. `default_time` inf: there is none, `max_time` applies."""

    name: str
    state: str = "UP"  # UP, DOWN, DRAIN, INACTIVE
    nodes: tuple[str, ...] = ()
    max_time: float = math.inf
    default_time: float = math.inf
    min_nodes: int = 0
    max_nodes: float = math.inf
    allow_accounts: frozenset[str] | None = None
    deny_accounts: frozenset[str] = frozenset()
    allow_qos: frozenset[str] | None = None
    deny_qos: frozenset[str] = frozenset()
    qos: str = ""  # the partition QOS
    priority_tier: int = 1
    max_cpus_per_node: float = math.inf
    oversubscribe: str = "NO"  # NO, EXCLUSIVE, YES:4, FORCE:4
    exclusive: bool = False  # jobs get whole nodes

    def admits_account(self, account: str) -> bool:
        """Return whether it admits jobs of an account; "", not known: it does."""
        return _admits(account, self.allow_accounts, self.deny_accounts)

    def admits_qos(self, qos: str) -> bool:
        """Return whether it admits jobs of a QOS; "", not known: it does."""
        return _admits(qos, self.allow_qos, self.deny_qos)


def _admits(name: str, allowed: frozenset[str] | None, denied: frozenset[str]) -> bool:
    """A list of allowed names replaces the list of denied ones."""
    if not name:
        return True
    return name in allowed if allowed is not None else name not in denied


@dataclass(frozen=True, slots=True)
class Reservation:
    """`flags`: MAINT, ALL_NODES, PART_NODES, IGNORE_JOBS, FLEX, ... as scontrol shows them."""

    name: str
    start: float  # epoch seconds
    end: float
    nodes: tuple[str, ...] = ()  # empty: licences only
    flags: frozenset[str] = frozenset()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    licenses: str = ""
    partition: str = ""
    state: str = "INACTIVE"  # or ACTIVE


@dataclass(frozen=True, slots=True)
class License:
    """A licence of the cluster, with its total and the number in use."""

    name: str
    total: float = 0
    used: float = 0
    free: float = 0
    reserved: float = 0
    remote: bool = False
    deficit: float = 0  # remote: used elsewhere beyond what is configured


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """What counts against the group limits of a QOS or an association, as slurmctld counts it."""

    jobs: float = 0
    wall: float = 0.0  # minutes, decayed
    tres: Tres = field(default_factory=dict)
    tres_mins: Tres = field(default_factory=dict)  # decayed
    tres_run_mins: Tres = field(default_factory=dict)


NO_USAGE = LimitUsage()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a QOS and an association have in common: limits of all their jobs together, and of each job.

    `usage` names only the TRES that have a group limit.
    """

    grp_jobs: float = math.inf
    grp_wall: float = math.inf  # minutes
    grp_tres: Tres = field(default_factory=dict)
    grp_tres_mins: Tres = field(default_factory=dict)
    grp_tres_run_mins: Tres = field(default_factory=dict)
    max_wall: float = math.inf  # minutes, each job
    max_tres: Tres = field(default_factory=dict)  # each job
    max_tres_node: Tres = field(default_factory=dict)  # each job's share of each of its nodes
    max_tres_mins: Tres = field(default_factory=dict)  # each job
    usage: LimitUsage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Qos(Limits):
    """`flags`: OverPartQOS, UsageFactorSafe, DenyOnLimit, PartitionTimeLimit, ... as far as read from slurmdbd."""

    name: str = ""
    flags: frozenset[str] = frozenset()
    usage_factor: float = 1.0
    limit_factor: float = 0.0  # of the associations' group and job TRES; 0: none
    max_jobs_user: float = math.inf
    max_jobs_account: float = math.inf
    max_tres_user: Tres = field(default_factory=dict)
    max_tres_account: Tres = field(default_factory=dict)
    max_tres_run_mins_user: Tres = field(default_factory=dict)
    max_tres_run_mins_account: Tres = field(default_factory=dict)
    min_tres: Tres = field(default_factory=dict)  # each job at least


@dataclass(frozen=True, slots=True)
class Association(Limits):
    """A user in an account, or an account (`user` ""). Slurm has already copied what each job of an account may take down to its
    users; group limits apply at each level."""

    account: str = ""
    parent: str = ""  # the account above an account; "" for the root, and for users
    user: str = ""
    partition: str = ""  # "": any
    max_jobs: float = math.inf


@dataclass(frozen=True, slots=True)
class FairShare:
    """The shares of an association in Slurm's fair-share tree.

    Attributes:
        account: its account.
        parent: the account above an account; "" for the root, and for users.
        uid: of a user's association; None: it is an account's.
        raw: shares, in proportion to those of its siblings.
    """

    account: str
    parent: str
    uid: int | None
    raw: float


@dataclass(frozen=True, slots=True)
class SlurmRules:
    """All of Slurm's rules at `time` (epoch seconds). Of `associations`, users' without any limit are absent: an index by
    (account, user, partition)."""

    time: float = 0.0
    enforce: frozenset[str] = frozenset()  # AccountingStorageEnforce: associations, limits, qos, safe
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    licenses: Mapping[str, License] = field(default_factory=dict)
    qos: Mapping[str, Qos] = field(default_factory=dict)
    associations: Mapping[tuple[str, str, str], Association] = field(default_factory=dict)
    fair_shares: tuple[FairShare, ...] = ()  # of all associations; (): there are none, or they are not enforced
    unread: tuple[str, ...] = ()  # what could not be read, in words: its limits are found by refused starts only

    def priority_tier(self, partition: str) -> int:
        """Return the highest PriorityTier of the partitions, which stand with commas between them; 0: none is known."""
        known = [self.partitions[name].priority_tier for name in partition.split(",") if name in self.partitions]
        return max(known, default=0)

    def chain(self, account: str, user: str, partition: str) -> tuple[Association, ...]:
        """The associations that a job counts against: its user's first, then its accounts up to the root."""
        find = self.associations.get
        own = find((account, user, partition)) or find((account, user, ""))
        found = [own] if own else []
        above, seen = find((account, "", "")), set[str]()
        while above and above.account not in seen:
            seen.add(above.account)
            found.append(above)
            above = find((above.parent, "", "")) if above.parent else None
        return tuple(found)
