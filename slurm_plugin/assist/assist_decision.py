"""The decision of mode assist on a snapshot of Slurm: from Slurm's order to preemptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tiresias.scheduler.assist.assist_plan import assist
from tiresias.scheduler.assist.slurm_queue import SlurmHead, SlurmOrder, SlurmQueue
from tiresias.scheduler.model import JobState, Plan, Snapshot
from tiresias.scheduler.pools import NodePool, PoolDecision
from tiresias.slurm_plugin.assist.slurm_ranks import FirstJob, first_jobs, in_order
from tiresias.slurm_plugin.backends.interface import SlurmSnapshot
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.job_phases import CLEAN_UP_S
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.transitions.transition_table import RELEASING_GPUS

# from a release of GPUs until Slurm has tried the first job on them (sched_min_interval, batch_sched_delay)
SLURM_PASS_S = 3.0
# for how long each step of a preempted job keeps further ones from being preempted for the same beneficiary
AWAITED_S = {**dict.fromkeys(RELEASING_GPUS, CLEAN_UP_S), IntentStep.YIELDED: SLURM_PASS_S}


def assisted(
    snapshot: Snapshot,
    slurm: SlurmSnapshot,
    rules: SlurmRules,
    config: Config,
    intents: Mapping[str, Intent],
    mean_run: float,
) -> tuple[Plan, tuple[PoolDecision, ...]]:
    """Return the plan, and the one pool of all nodes on which it is made.

    Args:
        snapshot: The managed jobs, and the nodes of the managed partitions.
        slurm: All records.
        rules: Slurm's own rules.
        config: The configuration.
        intents: The open ones, by job id.
        mean_run: As of `SlurmQueue`.
    """
    queue = slurm_queue(snapshot, slurm, rules, config, served(intents.values(), slurm.time))
    plan = assist(snapshot, replace(queue, mean_run=mean_run), config.policy)
    rows, nodes = np.arange(len(snapshot.jobs)), np.arange(len(snapshot.nodes))
    pool = NodePool(rows, nodes, config.policy, SlurmOrder(queue.order))
    return plan, (PoolDecision(pool, snapshot, plan),)


def served(intents: Iterable[Intent], now: float) -> frozenset[str]:
    """Return the jobs for which jobs release their GPUs, or have released them so lately that Slurm may not have tried them yet."""
    preempted = (one for one in intents if one.kind == IntentKind.ASSIST and one.step in AWAITED_S)
    return frozenset(one.beneficiary for one in preempted if now < one.stepped + AWAITED_S[one.step])


def slurm_queue(
    snapshot: Snapshot, slurm: SlurmSnapshot, rules: SlurmRules, config: Config, served: Collection[str] = ()
) -> SlurmQueue:
    """Return Slurm's order with the first jobs that are managed and lack resources. served: ids, as of `SlurmHead`."""
    row_of = {name: row for row, name in enumerate(snapshot.jobs.id)}
    found = first_jobs(slurm.jobs, slurm.nodes, rules)
    order = np.array(_order(snapshot, [job.id for job in in_order(slurm.jobs, rules)], row_of), np.int64)
    return SlurmQueue(order, tuple(_heads(found, row_of, config, served)), dict(_blocked(found, row_of)))


def _order(snapshot: Snapshot, waiting: Sequence[str], row_of: Mapping[str, int]) -> list[int]:
    """Running jobs first, then the waiting ones in Slurm's order, then those that Slurm passes over."""
    state = snapshot.jobs.state
    running = [row for row in range(len(state)) if state[row] != JobState.WAITING]
    return list(dict.fromkeys([*running, *(row_of[job] for job in waiting if job in row_of), *range(len(state))]))


def _heads(
    found: Iterable[FirstJob], row_of: Mapping[str, int], config: Config, served: Collection[str]
) -> Iterator[SlurmHead]:
    for first in found:
        if first.job.id in row_of and first.lacks_resources:
            waiting = [row_of[job.id] for job in (first.job, *first.lower_ranked) if job.id in row_of]
            policy = config.policy_of(first.job.partition)
            yield SlurmHead(row_of[first.job.id], np.array(waiting, np.int64), policy, first.job.id in served)


def _blocked(found: Iterable[FirstJob], row_of: Mapping[str, int]) -> Iterator[tuple[int, str]]:
    """Yield the managed jobs that rank after an unmanaged one, with its id."""
    for first in found:
        if first.job.id not in row_of:
            yield from ((row_of[job.id], first.job.id) for job in first.lower_ranked if job.id in row_of)
