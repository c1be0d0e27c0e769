"""One job as the controller publishes it: in `status`, in `explain` and, of ended jobs, in `history`.

Each field states its meaning in `Annotated`; docs/status_page.py writes the reference page from these types. Moments are
epoch seconds, durations seconds, service GPU-seconds. A missing key and null: not known.
"""

from __future__ import annotations

from typing import Annotated, TypedDict


class PublishedProfile(TypedDict, total=False):
    """The network traffic of a job's kind, as the trial run recorded it."""

    decision: Annotated[str, "consolidate, spread or unknown"]
    reasons: Annotated[list[str], "the observations that led to the decision"]
    architecture: Annotated[str, "parameter servers or a kind of all-reduce"]
    skew: Annotated[float | None, "size of the largest tensor divided by the size of the model"]
    intensity: Annotated[float | None, "seconds of communication for a second of computing"]
    model_bytes: Annotated[float, "size of the model"]
    largest_bytes: Annotated[float, "size of the largest tensor"]
    iteration: Annotated[float, "seconds of an iteration"]
    job: Annotated[str, "id of the recorded job"]
    made: Annotated[float, "moment of the recording"]


class PublishedMemoryUse(TypedDict):
    """What a job's nodes report of its remote memory, in MiB; sums of the nodes."""

    nodes: Annotated[int, "nodes that have it"]
    time: Annotated[float, "moment of the oldest of the reports"]
    requested: Annotated[float, "what these nodes were requested to give"]
    written: Annotated[float, "pages that the kernel has written"]
    read: Annotated[float, "pages that the kernel has read"]
    from_donors: Annotated[float, "of the pages that were read, those from donors"]
    from_queue: Annotated[float, "those that waited for the disk"]
    from_disk: Annotated[float, "those from the local disk"]
    seconds: Annotated[float, "for which reads and writes of pages lasted, the sum of all"]
    lent: Annotated[float, "what donors lend to it now"]
    donors: Annotated[list[tuple[str, float]], "[address, MiB], the largest first, at most 20"]
    refused: Annotated[list[tuple[str, str]], "[node, why it has none there], at most 20"]


class PublishedJob(TypedDict, total=False):
    """A job of the managed partitions."""

    id: Annotated[str, "as squeue prints it: 12, or 12_3 for a task of an array"]
    name: Annotated[str, "the job's name"]
    user: Annotated[str, "the owner's name"]
    uid: Annotated[int, "the owner's user id; of jobs that do not compete"]
    partition: Annotated[str, "of a pending job perhaps several, separated by commas"]
    gpus: Annotated[int, "requested GPUs"]
    elastic: Annotated[str, "the numbers of GPUs that it can use, MIN-MAX or MIN-MAX:STEP; empty: a fixed number"]
    rigid: Annotated[str, "why an elastic job keeps the number of GPUs that it requests; empty: it does not"]
    min_gpus: Annotated[
        int | None, "of an elastic job: the fewest GPUs that it can have now, by its owner and Slurm's limits"
    ]
    max_gpus: Annotated[int | None, "of an elastic job: the most GPUs that it can have now"]
    servers: Annotated[
        int | None, "of an elastic job with parameter servers: those that it has, or requests; null: it has none"
    ]
    server_counts: Annotated[str, "the numbers of parameter servers that it can use, MIN-MAX; empty: it has none"]
    state: Annotated[str, "WAITING, STARTING, RUNNING or LEAVING; NOT COMPETING, BLOCKED or ENDED of other jobs"]
    queue: Annotated[int, "index of its queue"]
    rank: Annotated[int, "position in the order, from 0"]
    attained: Annotated[float, "attained service, GPU-seconds"]
    ran: Annotated[float, "seconds on GPUs, of all runs"]
    waited: Annotated[float, "seconds without GPUs since the submission"]
    submit_time: Annotated[float, "moment of the submission"]
    start_time: Annotated[float, "start of the present run; 0 while it has no nodes"]
    nodes: Annotated[list[tuple[str, int]], "[node, GPUs there]"]
    slow_nodes: Annotated[
        list[tuple[str, float]],
        "[node, how many times as long as the median its slowest rank or server works], of nodes where it is twice or more",
    ]
    restarts: Annotated[int, "Slurm's restart count"]
    preemptions: Annotated[int, "how often the controller preempted it"]
    preemptable: Annotated[bool, "whether it may be preempted now"]
    step: Annotated[int, "step of the newest checkpoint; -1: none"]
    checkpoint_time: Annotated[float | None, "when that checkpoint was committed; read every two minutes at least"]
    placement: Annotated[str, "how its nodes are chosen: consolidate, spread, ..."]
    phase: Annotated[
        str, "what is being done to it: signalled, saving, parked, leaving, starting; in mode shadow to start, to stop"
    ]
    preemption_cost: Annotated[float | None, "measured seconds on its GPUs that a preemption costs"]
    progress: Annotated[float | None, "the newest training step that its program reported"]
    total_steps: Annotated[float | None, "the steps of the whole job, as its program reported"]
    remaining: Annotated[
        float | None, "expected seconds of work left, from these reports and the measured seconds a step"
    ]
    owner: Annotated[
        str, "the user or account between which GPUs are shared, such as user alice; missing: they are not"
    ]
    owner_use: Annotated[float | None, "what it used, in multiples of its share; null: it has no share"]
    owner_share: Annotated[float | None, "its share of the GPUs, of all owners that used any; null: it used nothing"]
    end: Annotated[
        float | None,
        "moment at which a running job that reports its progress is expected to end; null: not known, or never",
    ]
    end_low: Annotated[float | None, "the earliest plausible end: nine of ten are expected between both"]
    end_high: Annotated[float | None, "the latest plausible end; null where there is none"]
    virtual_cluster: Annotated[str, "its virtual cluster; empty: none"]
    guaranteed: Annotated[
        bool | None, "whether it holds its GPUs in cells of its virtual cluster; null where none are declared"
    ]
    unused_gpus: Annotated[
        list[int],
        "seconds for which each of its GPUs on its first node has been unused, or one number for all; empty: not reported",
    ]
    gpu_use_source: Annotated[str, "what was measured: nvml, or processes (their CPU time, a hint); empty: nothing"]
    remote_memory: Annotated[float, "MiB of remote memory that it requests, of all its nodes; 0: none"]
    remote_memory_use: Annotated[PublishedMemoryUse | None, "what its nodes report of it; null: nothing yet"]
    gpu_use: Annotated[str, "what is done about unused GPUs: none, shown, warned, demoted; empty: not reported"]
    why: Annotated[str, "why it waits, runs or is preempted"]
    profile: Annotated[PublishedProfile | None, "its traffic; null until a trial run has recorded it"]


class PublishedCosts(TypedDict, total=False):
    """What one run cost; null: not measured."""

    restore: Annotated[float | None, "seconds from the start of the run to its first step"]
    save: Annotated[float | None, "seconds of its newest save"]
    pause: Annotated[float | None, "seconds from the checkpoint signal to free GPUs"]
    redone: Annotated[int | None, "steps of the run before that were done again"]
    lost: Annotated[
        float | None, "seconds of the run that are done again, as the controller ended it without a checkpoint"
    ]
    beneficiary: Annotated[str, "the job for which the run was preempted; empty: none, or not known"]
    timed: Annotated[float | None, "seconds of a training step, timed by the controller from the program's reports"]
    expected: Annotated[float | None, "those that were expected of its number of GPUs before it began with another one"]


class PublishedRun(PublishedCosts):
    """One run of a job."""

    restart: Annotated[int, "Slurm's restart count of the run"]
    start: Annotated[float, "moment of its start"]
    end: Annotated[float | None, "moment of its end; 0 or null while it runs"]
    nodes: Annotated[list[str], "its nodes"]
    gpus: Annotated[int, "its GPUs"]
    servers: Annotated[int, "its parameter servers on CPUs alone; 0: none"]


class PublishedDecision(TypedDict):
    """One decision of the controller."""

    time: Annotated[float, "moment of the decision"]
    job: Annotated[str, "id of the job"]
    action: Annotated[str, "start, preempt, ..."]
    why: Annotated[str, "the reason"]


class PublishedPause(TypedDict):
    """No job is preempted since then (`tiresias pause`)."""

    since: Annotated[float, "moment of the request"]
    by: Annotated[str, "user who requested it"]
    reason: Annotated[str, "reason that was given"]


class PublishedUsage(TypedDict, total=False):
    """What a job attained and what preemptions cost it, in the requested time."""

    runs: Annotated[int, "runs that began"]
    preemptions: Annotated[int, "runs that the controller ended"]
    served: Annotated[float, "GPU-seconds"]
    queued: Annotated[float, "seconds from the submission to the first run"]
    parked: Annotated[float, "seconds between runs, and after the last one until the job ended"]
    saving: Annotated[float, "GPU-seconds from checkpoint signals until the GPUs were free"]
    restoring: Annotated[float, "GPU-seconds from starts after a preemption to the first step"]
    redone: Annotated[float, "GPU-seconds of steps that were done again"]


class PublishedPastJob(PublishedUsage):
    """A job in the history."""

    id: Annotated[str, "as squeue printed it"]
    uid: Annotated[int, "the owner's user id"]
    submit: Annotated[float, "moment of the submission"]
    end: Annotated[float, "moment of its end; 0 while it has not ended"]
    gpus: Annotated[int, "GPUs of its newest run; 0 where it never ran"]


class PublishedPastJobWithRuns(PublishedPastJob):
    """A job in the answer to a request for one id."""

    each_run: Annotated[list[PublishedRun], "its runs, the first one first"]


class HistoryPage(TypedDict):
    """The answer to `{"op": "history"}`."""

    time: Annotated[float, "moment of the answer"]
    jobs: Annotated[list[PublishedPastJob], "the jobs of this page; with `each_run` where one job was requested"]
    next: Annotated[str | None, "the cursor of the next page, for `after`; null: this is the last one"]
