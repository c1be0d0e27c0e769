"""The dictionary that the daemon publishes and every viewer reads (docs/architecture.md, Control socket), as types.

Moments are epoch seconds, durations seconds, service GPU-seconds. `None` or a missing key: not known.
"""

from __future__ import annotations

from typing import TypedDict

from tiresias.errors import TiresiasError

VERSION = 1


class PublishedPolicy(TypedDict, total=False):
    name: str
    thresholds: list[float]
    in_queue_order: str


class PublishedCycle(TypedDict, total=False):
    count: int
    seconds: float
    period: float
    median: float  # of the newest 1000, as p99
    p99: float
    snapshot: float  # of `seconds`, Slurm's answer


class PublishedQueue(TypedDict):
    index: int
    low: float
    high: float | None
    running: int
    waiting: int
    gpus_running: int
    gpus_waiting: int


class PublishedProfile(TypedDict, total=False):
    """As in profiler/summary.py; `job`: that was recorded."""

    decision: str
    reasons: list[str]
    architecture: str
    skew: float | None
    intensity: float | None
    model_bytes: float
    largest_bytes: float
    iteration: float
    job: str
    made: float


class PublishedJob(TypedDict, total=False):
    id: str
    name: str
    user: str
    partition: str
    gpus: int
    state: str
    queue: int
    rank: int
    attained: float
    ran: float
    waited: float
    submit_time: float
    start_time: float
    nodes: list[tuple[str, int]]
    restarts: int
    preemptions: int
    preemptable: bool
    step: int
    phase: str
    preemption_cost: float | None
    why: str
    profile: PublishedProfile | None


class PublishedNode(TypedDict, total=False):
    name: str
    state: str
    gpus: int
    allocations: list[tuple[str, int]]
    other_gpus: int
    features: list[str]


class PublishedDecision(TypedDict):
    time: float
    job: str
    action: str
    why: str


class PublishedCosts(TypedDict, total=False):
    """Of one run (journal.RunRow says what each is); None: not known."""

    restore: float | None
    save: float | None
    pause: float | None
    redone: int | None


class PublishedRun(PublishedCosts):
    restart: int
    start: float
    end: float | None  # None or 0: it still runs
    nodes: list[str]
    gpus: int


class PublishedPause(TypedDict):
    """No new preemptions since then."""

    since: float
    by: str
    reason: str


class PublishedPackLimit(TypedDict):
    """limit: skew above which jobs consolidate. jobs: kinds that were seen on few and on many nodes. error: share of wrong
    answers, cross-validated."""

    limit: float
    learned: bool
    jobs: int
    error: float | None
    why: str


class PublishedLoad(TypedDict):
    """sdiag(1). calls, mean_ms: of the controller's user."""

    threads: int
    queue: int
    database_queue: int
    calls: int
    mean_ms: float | None


class PublishedRpc(TypedDict):
    """Calls to slurmctld. burst, rate: how many at once and a second there may be, None: no limit. spent: since the start; calls:
    how often each verb of the back end was used. postponed: moves that wait for calls."""

    burst: float | None
    rate: float | None
    spent: int
    calls: dict[str, int]
    per_minute: float
    postponed: int
    slurmctld: PublishedLoad | None


class PublishedLeader(TypedDict):
    """since: epoch second at which it took the lead. standby: somebody waits to take over."""

    host: str
    pid: int
    epoch: int
    since: float
    standby: bool


class Status(TypedDict, total=False):
    """actions: how often each was taken since the controller leads; as in the decisions."""

    version: int
    time: float
    cluster: str
    mode: str
    backend: str
    slurm: str
    tiresias: str
    leader: PublishedLeader
    actions: dict[str, int]
    pid: int
    started: float
    policy: PublishedPolicy
    cycle: PublishedCycle
    alarms: list[str]
    packlimit: PublishedPackLimit
    paused: PublishedPause | None
    rpc: PublishedRpc
    queues: list[PublishedQueue]
    jobs: list[PublishedJob]
    nodes: list[PublishedNode]
    decisions: list[PublishedDecision]


class Explanation(TypedDict, total=False):
    job: PublishedJob
    runs: list[PublishedRun]
    decisions: list[PublishedDecision]
    paused: PublishedPause | None


def check_version(status: Status) -> None:
    """Raises TiresiasError when the daemon is from another time than this command."""
    if (found := status.get("version")) != VERSION:
        raise TiresiasError(
            f"the controller publishes version {found}, this command reads {VERSION}: use the same release"
        )
