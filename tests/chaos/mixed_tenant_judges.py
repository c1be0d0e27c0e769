"""What the kinds of jobs of `--mixed` promise, judged in retrospect, each with the name of the job and what happened.

throttled       more tasks of an array ran at once than its throttle permits
before_others   a dependent job ran before its condition: a run of the job that it waits for was not over, or, with afterok, none of
                its runs had completed
sizes           runs of elastic jobs with a number of GPUs that their owner did not state, and runs in cells with more GPUs than the
                virtual cluster (VC) owns
same_sizes      no elastic job changed its size, in a campaign of CHANGES_FROM jobs or more
wrong_nodes     runs without the node that their owner named, on the one that it excluded, or in another rack than requested
node_counts     runs on another number of nodes than their owner requested, first or by a change
uncharged       runs whose account in the journal differs from Slurm's log, and runs of a moved job for its former account
foreign_cells   cells of a VC that a job of another account held
refused         submissions that tsbatch refused

Slurm's log has whole seconds, so that a run may begin in the second in which another one ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.chaos.checks import LoggedRun
from tests.chaos.guarantees import ROUNDED_S
from tests.chaos.mixed_tenant_workload import MixedJob
from tests.chaos.scene import Submitted
from tests.chaos.tenants import GPUS_PER_NODE

CHANGES_FROM = 100  # jobs of a campaign in which sizes must change
Violation = tuple[str, str]  # name of the job, what happened
SEEN_AFTER_S = 3.0  # a change of the account, by the controller
START_S = 2.0  # from the second of a start in Slurm's log to the end of a change that preceded it
Accounts = Callable[[str, float], set[str]]  # of a job id about a moment, as Slurm showed them


@dataclass(frozen=True, slots=True)
class Condition:
    """What a dependent job waits for. tasks: of the other job."""

    kind: str
    parent: str
    parent_id: str
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class Move:
    """A job that its owner moved to another account."""

    job: str
    id: str
    time: float
    account: str


def refused(submissions: Iterable[tuple[str, Submitted]]) -> list[str]:
    """submissions: by name of job. Those that Slurm did not answer are none."""
    return [f"{name}: {one.error}" for name, one in submissions if one.error.startswith("tiresias: ")]


def throttled(runs: Iterable[LoggedRun], throttles: Mapping[str, int]) -> Iterator[Violation]:
    """throttles: by name of job."""
    arrays: dict[tuple[str, str], list[LoggedRun]] = {}
    for run in runs:
        if run.name in throttles:
            arrays.setdefault((run.name, run.id.partition("_")[0]), []).append(run)
    for (name, _), own in arrays.items():
        most = max(sum(other.start <= run.start < other.end for other in own) for run in own)
        if most > throttles[name]:
            yield name, f"{name}: {most} tasks ran at once, {throttles[name]} are permitted: {own}"


def moments_of_other_tasks(runs: Iterable[LoggedRun], throttled: Collection[str], task: str) -> list[float]:
    """Return when other tasks of a throttled array started and ended, in epoch seconds: the throttle kept this one back meanwhile.

    Args:
        runs: Slurm's log.
        throttled: The names of arrays with a throttle.
        task: The id, such as "7_2".
    """
    array = task.partition("_")[0]
    others = [run for run in runs if run.name in throttled and run.id.partition("_")[0] == array and run.id != task]
    return [moment for run in others for moment in (run.start + ROUNDED_S, run.end)]


def before_others(runs: Sequence[LoggedRun], conditions: Mapping[str, Condition]) -> Iterator[Violation]:
    """conditions: of dependent jobs, by name."""
    by_name: dict[str, list[LoggedRun]] = {}
    for run in runs:
        by_name.setdefault(run.name, []).append(run)
    for name, condition in conditions.items():
        parents = by_name.get(condition.parent, ())
        own = [run for run in parents if run.id.partition("_")[0] == condition.parent_id]
        first = min((run.start for run in by_name.get(name, ())), default=None)
        if first is None:
            continue
        if late := [run for run in own if run.end > first]:
            yield name, f"{name} ran at {first} before {condition.parent} had ended: {late[0]}"
        completed = {run.id for run in own if run.state == "COMPLETED" and run.end <= first}
        if condition.kind == "afterok" and len(completed) < condition.tasks:
            yield name, f"{name} ran at {first}, and {condition.parent} had not completed: {own}"


def other_sizes(runs: Iterable[LoggedRun], sizes: Mapping[str, frozenset[int]]) -> Iterator[Violation]:
    """sizes: of elastic jobs, by name."""
    for run in runs:
        if run.name in sizes and run.gpus not in sizes[run.name]:
            yield run.name, f"{run.name} had {run.gpus} GPUs, stated are {sorted(sizes[run.name])}: {run}"


def size_changes(runs: Iterable[LoggedRun], sizes: Mapping[str, frozenset[int]]) -> list[tuple[str, int, int]]:
    """Return name, GPUs before and GPUs after of two runs of an elastic job, one after the other, whose sizes differ."""
    of_jobs: dict[tuple[str, str], list[int]] = {}
    for run in runs:
        if run.name in sizes:
            of_jobs.setdefault((run.name, run.id), []).append(run.gpus)
    pairs = ((name, *pair) for (name, _), own in of_jobs.items() for pair in pairwise(own))
    return [(name, before, after) for name, before, after in pairs if before != after]


def same_sizes(jobs: int, changes: Sequence[object]) -> list[str]:
    """jobs: of the campaign. changes: of sizes."""
    if changes or jobs < CHANGES_FROM:
        return []
    return [f"no elastic job of a campaign of {jobs} jobs changed its size"]


def beyond_cells(
    in_cells: Iterable[tuple[str, int, str]], sizes: Mapping[str, frozenset[int]], nodes: Mapping[str, int]
) -> Iterator[Violation]:
    """in_cells: name, GPUs and account of each run in cells. nodes: how many a VC owns at most."""
    for name, gpus, account in in_cells:
        owned = nodes.get(account, 0) * GPUS_PER_NODE
        if name in sizes and gpus > owned:
            yield name, f"{name} had {gpus} GPUs in cells of {account or 'no account'}, which owns {owned}"


def wrong_nodes(
    runs: Iterable[LoggedRun], jobs: Mapping[str, MixedJob], rack: Callable[[str], int]
) -> Iterator[Violation]:
    """rack: number of the rack of a node, from 0 on."""
    for run in runs:
        job = jobs.get(run.name)
        if not job or not job.names_hardware:
            continue
        in_rack = not job.rack or all(rack(node) + 1 == job.rack for node in run.nodes)
        if (job.required and job.required not in run.nodes) or job.excluded in run.nodes or not in_rack:
            asked = {"with": job.required, "without": job.excluded, "in rack": job.rack}
            yield (
                run.name,
                f"{run.name} ran on {run.nodes}, requested { {key: one for key, one in asked.items() if one} }",
            )


def node_counts(runs: Iterable[LoggedRun], counts: Mapping[str, set[int]]) -> Iterator[Violation]:
    """counts: numbers of nodes that the owner of a job requested, by name."""
    for run in runs:
        if run.name in counts and len(run.nodes) not in counts[run.name]:
            yield run.name, f"{run.name} ran on {len(run.nodes)} nodes, not {sorted(counts[run.name])}: {run}"


def uncharged(
    runs: Iterable[LoggedRun], journaled: Iterable[tuple[str, float, str]], moves: Sequence[Move]
) -> Iterator[Violation]:
    """journaled: id, start and account of each run in the journal. A move in about the second of the start may count for it."""
    accounts: dict[str, list[tuple[float, str]]] = {}
    for job, start, account in journaled:
        accounts.setdefault(job, []).append((start, account))
    for run in runs:
        own = next((account for start, account in accounts.get(run.id, ()) if abs(start - run.start) <= 1), "")
        if own and own != run.account:
            yield run.name, f"{run.name}: {own} in the journal: {run}"
        own_moves = [move for move in moves if (move.job, move.id) == (run.name, run.id)]
        before = [move for move in own_moves if move.time <= run.start]
        about = {move.account for move in own_moves if run.start < move.time <= run.start + START_S}
        if before and run.account not in about | {before[-1].account}:
            yield run.name, f"{run.name} was moved to {before[-1].account} at {before[-1].time:.1f}: {run}"


def foreign_cells(
    reports: Iterable[tuple[float, Mapping[str, Any]]], accounts_at: Accounts, name: Callable[[str, float], str]
) -> tuple[list[Violation], int]:
    """Return also how many holders were judged. reports: `tiresias cells --json`, each with its moment."""
    broken, judged = list[Violation](), 0
    for moment, report in reports:
        for cluster in report.get("virtual_clusters", ()):
            for job in sorted(set(_holders(cluster.get("cells", ())))):
                known = accounts_at(job, moment)
                judged += bool(known)
                if known and cluster["name"] not in known:
                    holder = name(job, moment)
                    words = (
                        f"{holder} ({job}) of account {sorted(known)} held cells of {cluster['name']} at {moment:.1f}"
                    )
                    broken.append((holder, words))
    return broken, judged


def _holders(cells: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for cell in cells:
        yield from (str(job[0]) for job in cell.get("jobs", ()))
        yield from _holders(cell.get("parts", ()))
