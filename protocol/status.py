"""The answer to `{"op": "status"}`: the document that the controller publishes and every viewer reads.

Each field states its meaning in `Annotated`; docs/status_page.py writes the reference page from these types. Moments are
epoch seconds, durations seconds, service GPU-seconds. A missing key and null: not known.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from tiresias.protocol.published_cells import PublishedVirtualCluster
from tiresias.protocol.published_job import PublishedDecision, PublishedJob, PublishedPause


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
    shared_gpus: Annotated[int, "those of them of which jobs hold parts (gres/shard, gres/mps)"]
    features: Annotated[list[str], "its features in slurm.conf"]
    failing: Annotated[bool, "runs of several users failed there more often than elsewhere"]
    slowness: Annotated[
        float, "seconds a step of sensitive jobs, divided by those on the median node; missing: not known"
    ]
    slow: Annotated[bool, "it is persistently slow"]


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


class PublishedTable(TypedDict):
    """What was learned of the slowdowns of jobs that share nodes."""

    used: Annotated[bool, "whether it predicts slowdowns surely better than none does; otherwise none is expected"]
    kinds: Annotated[int, "kinds of jobs of which it is known; 0 where it is not used"]
    samples: Annotated[int, "timed runs beside jobs of one kind"]
    error: Annotated[float | None, "mean relative error of slowdowns in cross-validation; null: too few runs"]
    error_without: Annotated[float | None, "the same if none is expected"]


class PublishedWeights(TypedDict):
    """The network of placement.weights."""

    used: Annotated[bool, "whether jobs are placed by it; otherwise they are placed by least_interference"]
    file: Annotated[str, "placement.weights"]
    why: Annotated[str, "why it is not used; empty: it is"]


class PublishedNodeSpeeds(TypedDict):
    """What was learned of the speeds of nodes."""

    used: Annotated[
        bool, "whether they predict step times surely better than equal nodes do; otherwise nodes count as equal"
    ]
    samples: Annotated[int, "jobs on their nodes of which steps were timed and that others can be compared with"]
    error: Annotated[float | None, "mean error of the logarithm of step times in cross-validation; null: too few"]
    error_without: Annotated[float | None, "the same if all nodes are equal"]
    slow: Annotated[list[str], "the nodes that are persistently slow"]


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


class PublishedHolder(TypedDict):
    """A job on a listed node that is not listed itself."""

    id: Annotated[str, "as squeue prints it"]
    submit_time: Annotated[float, "moment of the submission"]
    nodes: Annotated[list[tuple[str, int]], "[node, GPUs there]"]


class PublishedShare(TypedDict):
    """An owner of jobs, where GPUs are shared between users or accounts."""

    owner: Annotated[str, "the user or account, such as user alice"]
    owner_use: Annotated[float | None, "what it used, in multiples of its share; null: it has no share"]
    owner_share: Annotated[float | None, "its share of the GPUs; null: it used nothing"]


class PublishedRest(TypedDict):
    """Sums of what an answer for one screen leaves out."""

    on_nodes: Annotated[int, "jobs on nodes that are not listed; with a user, only that user's, as in the next two"]
    waiting: Annotated[int, "waiting jobs that are not listed"]
    blocked: Annotated[int, "jobs that do not compete and are not listed"]
    all_blocked: Annotated[int, "the same, of all users"]
    holders: Annotated[list[PublishedHolder], "the jobs on the listed nodes that are not listed"]
    nodes: Annotated[int, "nodes that are not listed"]
    gpus: Annotated[int, "their GPUs"]
    managed_gpus: Annotated[int, "of them, held by managed jobs"]
    other_gpus: Annotated[int, "of them, held by unmanaged jobs"]
    widest: Annotated[int, "the most GPUs of one node, listed or not"]
    owners: Annotated[list[PublishedShare], "the owners of all jobs, those that used most of their shares first"]
    more_owners: Annotated[int, "owners that are left out"]


class PublishedRemoteMemory(TypedDict):
    """The remote memory of the cluster, in MiB: the licence remote_memory, and what donors can lend."""

    total: Annotated[float, "the licence"]
    free: Annotated[float, "what running jobs leave of it"]
    lendable: Annotated[
        float | None, "what donors can lend now beyond what is promised to jobs; null while no job requests any"
    ]


class Status(TypedDict, total=False):
    """The published document."""

    version: Annotated[int, "of this format"]
    time: Annotated[float, "moment of Slurm's snapshot"]
    cluster: Annotated[str, "ClusterName"]
    mode: Annotated[str, "shadow, assist or exact"]
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
    interference: Annotated[
        PublishedTable | None,
        "the expected slowdowns of jobs on one node; null where the style of placement does not use them",
    ]
    weights: Annotated[PublishedWeights | None, "the trained network; null where the style of placement is not learned"]
    node_speeds: Annotated[PublishedNodeSpeeds, "the speeds of nodes by the step times of jobs"]
    remote_memory: Annotated[PublishedRemoteMemory | None, "null: the site has no licence remote_memory"]
    paused: Annotated[PublishedPause | None, "null: not paused"]
    shadow: Annotated[PublishedShadow | None, "null in other modes"]
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
    virtual_clusters: Annotated[
        list[PublishedVirtualCluster], "the virtual clusters, in the order of the configuration"
    ]
    rest: Annotated[
        PublishedRest,
        "only in an answer for one screen (`lines`), which lists the first jobs and nodes alone: sums of the others",
    ]
