"""The dictionary that the daemon publishes and every viewer reads (docs/reference/interfaces.md, Control socket), as types.

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


class PublishedPool(TypedDict, total=False):
    partitions: list[str]  # whose queue it is, where partitions have policies of their own


class PublishedQueue(PublishedPool):
    index: int
    low: float
    high: float | None
    running: int
    waiting: int
    gpus_running: int
    gpus_waiting: int
    starting: int  # released to Slurm, which has not started them yet
    gpus_starting: int


class PublishedProfile(TypedDict, total=False):
    """As in protocol/profile_summary.py; `job`: that was recorded."""

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
    uid: int  # of a job that has ended
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
    checkpoint_time: float | None  # of that step's commit
    placement: str  # that it wants: scheduler.model.Style in lower case
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
    """Of one run (journal.RunRow says what each is); None: not known. beneficiary: for whom it was preempted; "": for nobody, or it
    is not known."""

    restore: float | None
    save: float | None
    pause: float | None
    redone: int | None
    beneficiary: str


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


class PublishedMoves(TypedDict):
    jobs: int
    gpus: int


class PublishedShadow(TypedDict, total=False):
    """What mode shadow would do now (start, preempt), and over all the time that it has watched (seconds, since the first look):
    agreed: seconds with nothing to do. gpu_seconds: that there were; busy: of these, of our jobs; movable: of these, of jobs that
    may be preempted; idle: free though we would have started jobs on them; taken: by jobs that we would have preempted.
    sooner, preempted: runs that we would have started before Slurm did, and would have preempted."""

    start: PublishedMoves
    preempt: PublishedMoves
    since: float
    seconds: float
    agreed: float
    gpu_seconds: float
    busy: float
    movable: float
    idle: float
    taken: float
    sooner: int
    preempted: int


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


class PublishedTotals(TypedDict):
    """Of the jobs of a partition and account since the controller leads, as slurm_plugin/state/totals.py says. account: "" where
    it is hidden."""

    partition: str
    account: str
    runs: float
    preemptions: float
    waited: float
    saving: float
    restoring: float
    redone: float


class Status(TypedDict, total=False):
    """actions: how often each was taken since the controller leads; as in the decisions. blocked: jobs of the managed partitions
    that do not compete: they wait for a dependency or a begin time, are held by their owner or an admin, or are left to Slurm."""

    version: int
    time: float
    cluster: str
    mode: str
    backend: str
    slurm: str
    tiresias: str
    leader: PublishedLeader
    actions: dict[str, int]
    totals: list[PublishedTotals]
    pid: int
    started: float
    policy: PublishedPolicy
    cycle: PublishedCycle
    alarms: list[str]
    packlimit: PublishedPackLimit
    paused: PublishedPause | None
    shadow: PublishedShadow | None
    rpc: PublishedRpc
    queues: list[PublishedQueue]
    jobs: list[PublishedJob]
    blocked: list[PublishedJob]
    nodes: list[PublishedNode]
    decisions: list[PublishedDecision]


class PublishedHad(TypedDict, total=False):
    """Of one job, as slurm_plugin/state/usage.py says."""

    runs: int
    preemptions: int
    served: float
    queued: float
    parked: float
    saving: float
    restoring: float
    redone: float


class PublishedStep(TypedDict):
    time: float
    what: str


class PublishedForecast(TypedDict, total=False):
    """estimate: when a waiting job starts by time limits, None: not known. notes: its options that have no effect."""

    estimate: float | None
    notes: list[str]


class PublishedOutlook(PublishedForecast):
    """Of a waiting job: the GPUs of the managed nodes by who has them, what may make room by itself, and when it starts at the
    latest; None: nothing bounds that, and `why` not."""

    free: int
    ahead: int
    behind: int
    fixed: int
    others: int
    steps: list[PublishedStep]
    latest: float | None
    why: str


class PublishedDependency(TypedDict):
    """A job that `--dependency` names. job: 12, 13_2, or 13_* for a whole array. failed: it can never be satisfied. state: in
    Slurm's words, "" where the job is not known. exit_code: as a shell would see it."""

    kind: str
    job: str
    failed: bool
    state: str
    exit_code: int | None


class PublishedSlurm(TypedDict, total=False):
    """Slurm's own facts about a job; sockets/slurm_facts.py documents them."""

    state: str
    reason: str
    shown: str
    exit_code: int | None
    batch: bool
    tsbatch: bool
    ready: bool
    depends_on: list[PublishedDependency]


class PublishedTasks(TypedDict):
    """Tasks of an array in the same state for the same reason: their numbers as 0-2,7, and the facts of the first."""

    tasks: str
    count: int
    job: PublishedJob
    slurm: PublishedSlurm | None


class ArrayExplanation(TypedDict, total=False):
    """count: tasks that were asked for; the groups hold at most array_tasks.MAX_TASKS of them."""

    array: str
    count: int
    groups: list[PublishedTasks]
    paused: PublishedPause | None


class Explanation(TypedDict, total=False):
    """slurm: None where slurmctld has forgotten the job. outlook: None where the job does not wait for GPUs."""

    job: PublishedJob
    slurm: PublishedSlurm | None
    had: PublishedHad
    outlook: PublishedOutlook | None
    runs: list[PublishedRun]
    decisions: list[PublishedDecision]
    paused: PublishedPause | None


def check_version(status: Status) -> None:
    """Raises TiresiasError when the daemon is from another time than this command."""
    if (found := status.get("version")) != VERSION:
        raise TiresiasError(
            f"the controller publishes version {found}, this command reads {VERSION}: use the same release"
        )
