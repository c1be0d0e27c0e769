"""The answer to `{"op": "status"}`: the document that the controller publishes and every viewer reads.

Each field states its meaning in `Annotated`; docs/status_page.py writes the reference page from these types. Moments are
epoch seconds, durations seconds, service GPU-seconds. A missing key and null: not known.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from tiresias.errors import TiresiasError
from tiresias.protocol.published_job import PublishedDecision, PublishedJob, PublishedPause

VERSION = 1


class PublishedPolicy(TypedDict, total=False):
    """The policy of `[policy]`."""

    name: Annotated[str, "the policy's name"]
    thresholds: Annotated[list[float], "GPU-seconds between queues"]
    in_queue_order: Annotated[str, "how jobs of one queue are ordered"]


class PublishedCycle(TypedDict, total=False):
    """The controller's cycles."""

    count: Annotated[int, "cycles since the controller leads"]
    seconds: Annotated[float, "duration of the newest one"]
    period: Annotated[float, "seconds between two cycles when nothing wakes the controller"]
    median: Annotated[float, "median duration of the newest 1000"]
    p99: Annotated[float, "99th percentile of the same"]
    snapshot: Annotated[float, "of `seconds`, the time until Slurm answered"]


class PublishedPool(TypedDict, total=False):
    """Of which jobs a queue is; only where partitions have policies of their own, or with virtual clusters."""

    partitions: Annotated[list[str], "the partitions"]
    virtual_cluster: Annotated[str, "the virtual cluster; empty: the jobs that belong to none"]


class PublishedQueue(PublishedPool):
    """One queue of the policy."""

    index: Annotated[int, "its number, from 0; queues of a second pool follow those of the first"]
    low: Annotated[float, "the lowest attained service of its jobs"]
    high: Annotated[float | None, "the attained service at which a job leaves it; null of the last queue"]
    running: Annotated[int, "running jobs"]
    waiting: Annotated[int, "waiting jobs"]
    gpus_running: Annotated[int, "GPUs of the running jobs"]
    gpus_waiting: Annotated[int, "GPUs that the waiting jobs request"]
    starting: Annotated[int, "jobs released to Slurm, which has not started them yet"]
    gpus_starting: Annotated[int, "their GPUs"]


class PublishedNode(TypedDict, total=False):
    """One managed node."""

    name: Annotated[str, "the node's name"]
    state: Annotated[str, "in Slurm's words, flags after a +"]
    gpus: Annotated[int, "its GPUs"]
    allocations: Annotated[list[tuple[str, int]], "[managed job, GPUs]"]
    other_gpus: Annotated[int, "GPUs of unmanaged jobs"]
    features: Annotated[list[str], "its features in slurm.conf"]


class PublishedMoves(TypedDict):
    """Jobs that mode exact would start, or preempt, now."""

    jobs: Annotated[int, "how many"]
    gpus: Annotated[int, "their GPUs"]


class PublishedShadow(TypedDict, total=False):
    """What mode shadow would do now, and a comparison with Slurm over all the time that it has watched."""

    start: Annotated[PublishedMoves, "jobs that it would start now"]
    preempt: Annotated[PublishedMoves, "jobs that it would preempt now"]
    since: Annotated[float, "moment of the first snapshot"]
    seconds: Annotated[float, "seconds watched since then"]
    agreed: Annotated[float, "of these, seconds with nothing to do"]
    gpu_seconds: Annotated[float, "GPU-seconds of the managed nodes in that time"]
    busy: Annotated[float, "of these, used by managed jobs"]
    movable: Annotated[float, "of these, used by jobs that may be preempted"]
    idle: Annotated[float, "free, though it would have started jobs there"]
    taken: Annotated[float, "used by jobs that it would have preempted"]
    sooner: Annotated[int, "runs that it would have started before Slurm did"]
    preempted: Annotated[int, "runs that it would have preempted"]


class PublishedPackLimit(TypedDict):
    """The skew above which jobs with parameter servers are consolidated."""

    limit: Annotated[float, "the limit"]
    learned: Annotated[bool, "whether it was learned from this site's own runs"]
    jobs: Annotated[int, "kinds of jobs that ran both on few and on many nodes"]
    error: Annotated[float | None, "share of wrong answers in cross-validation"]
    why: Annotated[str, "why it was learned, or not"]


class PublishedLoad(TypedDict):
    """The load of slurmctld, as sdiag(1) reports it."""

    threads: Annotated[int, "server threads"]
    queue: Annotated[int, "agent queue size"]
    database_queue: Annotated[int, "messages waiting for slurmdbd"]
    calls: Annotated[int, "calls of the controller's user"]
    mean_ms: Annotated[float | None, "their mean duration in milliseconds"]


class PublishedRpc(TypedDict):
    """The controller's calls to slurmctld."""

    burst: Annotated[float | None, "how many at once are allowed; null: no limit"]
    rate: Annotated[float | None, "how many a second are allowed; null: no limit"]
    spent: Annotated[int, "calls since the start"]
    calls: Annotated[dict[str, int], "how often each operation of the back end was used"]
    per_minute: Annotated[float, "calls in the last minute"]
    postponed: Annotated[int, "transitions that wait for calls"]
    slurmctld: Annotated[PublishedLoad | None, "the load of slurmctld"]


class PublishedLeader(TypedDict):
    """The controller that leads."""

    host: Annotated[str, "its host"]
    pid: Annotated[int, "its process id"]
    epoch: Annotated[int, "counts the changes of the leader"]
    since: Annotated[float, "moment at which it took the lead"]
    standby: Annotated[bool, "whether another controller is ready to take over"]


class PublishedTotals(TypedDict):
    """Sums over the jobs of a partition and account since the controller leads."""

    partition: Annotated[str, "the partition"]
    account: Annotated[str, "the account; empty where it is hidden"]
    runs: Annotated[float, "runs that began"]
    preemptions: Annotated[float, "preemptions"]
    waited: Annotated[float, "seconds without GPUs"]
    saving: Annotated[float, "GPU-seconds from checkpoint signals until the GPUs were free"]
    restoring: Annotated[float, "GPU-seconds from starts after a preemption to the first step"]
    redone: Annotated[float, "GPU-seconds of steps that were done again"]


class Status(TypedDict, total=False):
    """The published document."""

    version: Annotated[int, "of this format"]
    time: Annotated[float, "moment of Slurm's snapshot"]
    cluster: Annotated[str, "ClusterName"]
    mode: Annotated[str, "shadow or exact"]
    backend: Annotated[str, "pyslurm or commands"]
    slurm: Annotated[str, "Slurm's version"]
    tiresias: Annotated[str, "the controller's version"]
    leader: Annotated[PublishedLeader, "the controller that leads"]
    actions: Annotated[dict[str, int], "how often each action was taken since it leads"]
    totals: Annotated[list[PublishedTotals], "a row for each partition and account"]
    pid: Annotated[int, "the controller's process id"]
    started: Annotated[float, "moment of its start"]
    policy: Annotated[PublishedPolicy, "the policy"]
    cycle: Annotated[PublishedCycle, "the newest cycles"]
    alarms: Annotated[list[str], "what an admin should look at, one line each"]
    packlimit: Annotated[PublishedPackLimit, "the limit of skew"]
    paused: Annotated[PublishedPause | None, "null: not paused"]
    shadow: Annotated[PublishedShadow | None, "null in mode exact"]
    rpc: Annotated[PublishedRpc, "calls to slurmctld"]
    queues: Annotated[list[PublishedQueue], "the queues, the first one first"]
    jobs: Annotated[list[PublishedJob], "jobs with GPUs, then waiting jobs, each in the order of the policy"]
    blocked: Annotated[
        list[PublishedJob],
        "jobs that do not compete: they wait for a dependency or a begin time, are held by their owner or an admin, or are "
        "left to Slurm",
    ]
    nodes: Annotated[list[PublishedNode], "the managed nodes"]
    decisions: Annotated[list[PublishedDecision], "the newest 50 decisions, the newest one first"]


def check_version(status: Status) -> None:
    """Raise TiresiasError where the controller publishes another version of the format than this command reads."""
    if (found := status.get("version")) != VERSION:
        raise TiresiasError(
            f"the controller publishes version {found}, this command reads {VERSION}: use the same release"
        )
