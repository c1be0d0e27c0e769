"""The answers to `{"op": "explain"}`: one job, or the tasks of an array in groups.

Each field states its meaning in `Annotated`; docs/status_page.py writes the reference page from these types.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from tiresias.protocol.published_job import (
    PublishedDecision,
    PublishedJob,
    PublishedPause,
    PublishedRun,
    PublishedUsage,
)
from tiresias.protocol.status import PublishedRemoteMemory


class PublishedStep(TypedDict):
    """A change that is known to come and may free GPUs for a waiting job."""

    time: Annotated[float, "its moment"]
    what: Annotated[str, "what happens then"]


class PublishedEstimate(TypedDict, total=False):
    """An estimate of the start of a waiting job, from time limits."""

    estimate: Annotated[float | None, "moment of the start; null where time limits do not bound it"]
    notes: Annotated[list[str], "its options that have no effect"]


class PublishedStartForecast(PublishedEstimate):
    """When a waiting job starts: the GPUs of the managed nodes by holder, coming changes, and the latest moment."""

    free: Annotated[int, "free GPUs"]
    ahead: Annotated[int, "GPUs of jobs ranked higher"]
    behind: Annotated[int, "GPUs of jobs ranked lower that may be preempted"]
    fixed: Annotated[int, "GPUs of jobs ranked lower that are not preempted now"]
    others: Annotated[int, "GPUs of unmanaged jobs"]
    steps: Annotated[list[PublishedStep], "changes that are known to come, in order"]
    latest: Annotated[float | None, "moment by which it starts; null where nothing bounds its wait"]
    why: Annotated[str, "what bounds the wait, or why nothing does"]


class PublishedDependency(TypedDict):
    """A job that `--dependency` names."""

    kind: Annotated[str, "afterok, afterany, ..."]
    job: Annotated[str, "12, 13_2, or 13_* for a whole array"]
    failed: Annotated[bool, "whether it can never be satisfied"]
    state: Annotated[str, "in Slurm's words; empty where the job is not known"]
    exit_code: Annotated[int | None, "as a shell reports it; the highest of an array"]


class PublishedSlurm(TypedDict, total=False):
    """Slurm's own facts about the job."""

    state: Annotated[str, "as squeue prints it"]
    reason: Annotated[str, "why Slurm would not start the job now"]
    shown: Annotated[str, "the reason in squeue; that of the hold while Tiresias holds the job"]
    exit_code: Annotated[int | None, "as a shell reports it"]
    batch: Annotated[bool, "whether it has a batch script"]
    tsbatch: Annotated[bool, "whether it was submitted with tsbatch"]
    ready: Annotated[bool, "whether its present run has shown that it can save"]
    depends_on: Annotated[list[PublishedDependency], "the jobs that it waits for, at most 20"]


class PublishedTasks(TypedDict):
    """Tasks of an array in the same state for the same reason; the facts are those of the first."""

    tasks: Annotated[str, "their numbers, as 0-2,7"]
    count: Annotated[int, "how many they are"]
    job: Annotated[PublishedJob, "the first task"]
    slurm: Annotated[PublishedSlurm | None, "Slurm's facts about it"]


class ArrayExplanation(TypedDict, total=False):
    """The answer for an array, or for some of its tasks (`"job": "12_[1-3]"`)."""

    array: Annotated[str, "the array's id"]
    count: Annotated[int, "requested tasks; the groups hold at most 1000 of them"]
    groups: Annotated[list[PublishedTasks], "in the order of their first task"]
    paused: Annotated[PublishedPause | None, "as in the status"]


class PublishedNeighbour(TypedDict):
    """A job on a node of the explained one."""

    job: Annotated[str, "its id; empty for a job that the user may not see"]
    own: Annotated[float, "expected slowdown of the explained job beside it; 0.02: 2%"]
    other: Annotated[float, "its own expected slowdown beside the explained job"]


class PublishedInterference(TypedDict):
    """What is expected of a job beside the jobs on its nodes."""

    learned: Annotated[bool, "whether the runs of the site show that jobs on one node slow each other"]
    known: Annotated[bool, "whether that is known of the kind of the job"]
    beside: Annotated[list[PublishedNeighbour], "jobs of known kinds on its nodes, the worst neighbour first"]


class PublishedSpeed(TypedDict):
    """How fast a job is expected to be on its nodes."""

    slowdown: Annotated[float, "expected seconds a step, divided by those on the median node"]
    slowest: Annotated[str, "the slowest of its nodes"]
    sensitivity: Annotated[float, "1: it is slower by the slowness of the node; 0: no node slows it"]


class Explanation(TypedDict, total=False):
    """The answer for one job."""

    job: Annotated[PublishedJob, "as in the status"]
    slurm: Annotated[PublishedSlurm | None, "Slurm's facts; null once slurmctld has forgotten the job"]
    had: Annotated[PublishedUsage, "what it attained since its submission"]
    outlook: Annotated[PublishedStartForecast | None, "when it starts; null where it does not wait for GPUs"]
    interference: Annotated[
        PublishedInterference | None,
        "expected slowdowns where it runs or starts; null where the style of placement does not use them",
    ]
    speed: Annotated[
        PublishedSpeed | None,
        "expected speed of the nodes where it runs or starts; null where jobs are not placed by the speeds of nodes",
    ]
    remote_memory: Annotated[PublishedRemoteMemory | None, "as in the status"]
    runs: Annotated[list[PublishedRun], "its runs, the first one first"]
    decisions: Annotated[list[PublishedDecision], "the decisions about it"]
    paused: Annotated[PublishedPause | None, "as in the status"]
