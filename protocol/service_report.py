"""What the manager of the parameter service publishes, in files of one folder (`service_report` in tiresias.toml).

report.json      for everybody: the service, its aggregators and sums; it names no user and no job
jobs.json        for the service account and the configured group (report_group): all jobs
users/UID.json   for that user alone, by an access control list: the user's jobs

Moments are epoch seconds. null: not known. Each file is replaced as a whole.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

REPORT = "report.json"
JOBS = "jobs.json"
USERS = "users"
VERSION = 1  # of this format
MAX_BYTES = 64 << 20  # of one file
STALE_S = 30.0  # a manager that lives reports at least this often, except while Slurm does not answer


class PublishedAggregator(TypedDict):
    """One aggregator."""

    name: Annotated[str, "the name of its Slurm job"]
    slurm_job: Annotated[int, "the id of its Slurm job; 0: not known yet"]
    node: Annotated[str, "its node; empty while it does not run"]
    state: Annotated[str, "requested (not submitted yet), waiting (for Slurm), running, draining or ending"]
    cycle_s: Annotated[float, "its execution cycle C; 0 without assigned tensors"]
    work_s: Annotated[float, "the work of its tensors in a cycle, W"]
    free_s: Annotated[float, "what its tensors leave of a cycle"]
    jobs: Annotated[int, "jobs with tensors on it"]
    tensors: Annotated[int, "tensors, and blocks of large ones, on it"]
    declared_bytes: Annotated[int, "their bytes, as the jobs declare them"]
    bytes: Annotated[int | None, "their bytes, as aggregators report them, copies that migrate included"]


class PublishedServiceJob(TypedDict):
    """One job of the service."""

    name: Annotated[str, "its name in the service"]
    uid: Annotated[int, "its owner"]
    state: Annotated[
        str,
        "registered (no tensors yet), profiled, assigned, moving (tensors migrate), or parked (an aggregator waits for a node)",
    ]
    servers: Annotated[int, "parameter servers that it declared"]
    workers: Annotated[int, "its workers"]
    tensors: Annotated[int, "its tensors"]
    declared_bytes: Annotated[int, "their bytes, as the jobs declare them"]
    bytes: Annotated[int | None, "their bytes, as aggregators report them, copies that migrate included"]
    aggregators: Annotated[list[str], "where its tensors are, or are to be"]
    used: Annotated[float, "aggregators of its profile, and its share of the work on others"]
    iteration_s: Annotated[float | None, "seconds of an iteration on aggregators of its own"]
    measured_s: Annotated[float | None, "mean of the last 100 measured iterations since the manager leads"]
    loss: Annotated[float | None, "share of its speed that it loses by that; before, as expected of its cycle"]
    reverts: Annotated[int, "how often its assignment was revoked for too large a loss"]


class PublishedServiceTotals(TypedDict):
    """Sums over all jobs."""

    users: Annotated[int, "owners of jobs"]
    jobs: Annotated[int, "jobs"]
    waiting: Annotated[int, "jobs that wait to be registered, as the budget is used up"]
    tensors: Annotated[int, "their tensors"]
    declared_bytes: Annotated[int, "their bytes, as the jobs declare them"]
    servers: Annotated[int, "parameter servers that they declared"]
    aggregators: Annotated[int, "aggregators that are assigned or reserved"]
    ratio: Annotated[float | None, "aggregators for each declared server; null without jobs"]
    reverts: Annotated[int, "revoked assignments of these jobs"]


class PublishedUseLimits(TypedDict):
    """What a user or an account may use; null: no limit."""

    aggregators: Annotated[float | None, "aggregators that its jobs may use"]
    jobs: Annotated[int | None, "its registered jobs"]
    bytes: Annotated[int | None, "bytes of the tensors that its jobs declare"]


class PublishedServiceLimits(TypedDict):
    """The limits of each user and of each account."""

    user: Annotated[PublishedUseLimits, "of each user"]
    account: Annotated[PublishedUseLimits, "of each Slurm account"]


class ServiceReport(TypedDict):
    """The file report.json."""

    version: Annotated[int, "version of this format"]
    time: Annotated[float, "moment of the report"]
    manager: Annotated[str, "the manager's id"]
    host: Annotated[str, "the host of the manager that leads"]
    epoch: Annotated[int, "counts the changes of the leader"]
    uid: Annotated[int, "the service account"]
    partition: Annotated[str, "the partition of the aggregators; empty: Slurm's default"]
    qos: Annotated[str, "their QOS; empty: Slurm's default"]
    account: Annotated[str, "their account; empty: Slurm's default"]
    budget: Annotated[int, "the most aggregators at any time"]
    limits: Annotated[PublishedServiceLimits, "what users and accounts may use"]
    problem: Annotated[str, "why Slurm did not answer last time; empty: it did"]
    aggregators: Annotated[list[PublishedAggregator], "the aggregators"]
    totals: Annotated[PublishedServiceTotals, "sums over all jobs"]


class ServiceJobs(TypedDict):
    """The file jobs.json, and those of users."""

    jobs: Annotated[list[PublishedServiceJob], "the jobs"]


def user_file(uid: int) -> str:
    """Return the name of a user's file in the folder."""
    return f"{USERS}/{uid}.json"
