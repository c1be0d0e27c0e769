"""The simulation of a replay: the same jobs, policy and settings, charged with what the replay measured. Pure.

A submission takes effect after the median from a submission to the decision on it. A first start delays its job by the median
of the measured first starts. A preemption holds the GPUs for the median from the decision to free GPUs, which contains the
save, and delays the job at its next start by the median of the measured restarts. A job that has ended holds its GPUs for the
median from an end to the decision that follows it. Nothing else is charged, such as what is slower than the median.

A second simulation is charged with means in place of the medians: what lies between the two is the skew of these times, the rest is
something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiresias.sandbox.replay import setup
from tiresias.sandbox.replay.backfill import BatchJob, ends
from tiresias.sandbox.replay.replay_policies import STOCK_POLICIES, ReplayPolicy, has_tenants
from tiresias.sandbox.replay.setup import MIN_RUN_S, Options
from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost
from tiresias.simulator.trace import Trace, TraceJob


class Charges(NamedTuple):
    """What the simulation charges, seconds of the trace.

    Attributes:
        start: A first start.
        pause: A preemption, until its GPUs are free.
        resume: A start after a preemption.
        release: The end of a job, until its GPUs are given to another one.
        arrival: A submission, until GPUs are given to the job.
    """

    start: float
    pause: float
    resume: float
    release: float = 0.0
    arrival: float = 0.0

    @classmethod
    def of(cls, latency: Mapping[str, Mapping[str, float]], time_scale: float, which: str = "median") -> Charges:
        """Return the measured medians, or means; 0 where nothing was measured."""
        spans = (latency.get(name, {}) for name in ("first_line", "preemption", "restart", "release", "arrival"))
        start, pause, resume, release, arrival = (each.get(which, 0.0) * time_scale for each in spans)
        return cls(start, pause, resume or start, release, arrival)


def mean_jct(policy: str, jobs: Sequence[TraceJob], options: Options, charges: Charges) -> float | None:
    """Return the mean JCT in seconds of the trace; None: this replay is not simulated.

    Args:
        policy: A key of replay_policies.LABELS.
        jobs: Those of the replay.
        options: Of the replay.
        charges: What starts and preemptions cost.
    """
    if not_simulated(policy, options):
        return None
    if policy not in STOCK_POLICIES:
        return _managed(ReplayPolicy.parsed(policy), jobs, options, charges)
    return _backfill(jobs, options, charges) if policy == "slurm-backfill" else _fifo(jobs, options, charges)


def not_simulated(policy: str, options: Options) -> str:
    """Return why a replay is not simulated; "": it is."""
    if options.site:
        return "fair shares, QOS and unmanaged jobs are not simulated"
    if options.fewest_nodes:
        return "the simulated jobs request GPUs on any nodes, unlike those of --fewest-nodes"
    if policy not in STOCK_POLICIES and ReplayPolicy.parsed(policy).elastic:
        return "its speed by the size is that of the replay's trainer"
    if policy not in STOCK_POLICIES and ReplayPolicy.parsed(policy).assists:
        return "the order and the starts are Slurm's own"
    if policy in STOCK_POLICIES and has_tenants(policy):
        return "shares, limits and partitions of Slurm are Slurm's own"
    if policy in STOCK_POLICIES and options.placement_effect:
        return "nodes are Slurm's own choice; use --no-placement-effect"
    return ""


def compared(policy: str, jobs: Sequence[TraceJob], options: Options, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return `simulated_mean_jct`, its ratio to the measured one, and what was charged; {} where it is not simulated.

    `means_to_measured` is the ratio of the simulation that is charged with means.
    """
    charges, means = (Charges.of(outcome["latency"], options.time_scale, which) for which in ("median", "mean"))
    simulated, with_means = (mean_jct(policy, jobs, options, each) for each in (charges, means))
    if simulated is None or with_means is None:
        return {}
    return {
        "simulated_mean_jct": simulated,
        "simulated_to_measured": simulated / outcome["mean_jct"],
        "means_to_measured": with_means / outcome["mean_jct"],
        "charged": charges._asdict(),
    }


def _trace(jobs: Sequence[TraceJob], charges: Charges) -> Trace:
    """Return jobs that run as long as they hold GPUs: from the decision to the release."""
    users = [setup.user_of(job, row) for row, job in enumerate(jobs)]
    return Trace.of(
        replace(
            job,
            submit_time=job.submit_time + charges.arrival,
            duration=_held(job, charges),
            user=user,
            model=setup.model_of(job),
        )
        for job, user in zip(jobs, users, strict=True)
    )


def _held(job: TraceJob, charges: Charges) -> float:
    return job.duration + charges.start + charges.release


def _managed(policy: ReplayPolicy, jobs: Sequence[TraceJob], options: Options, charges: Charges) -> float:
    trace = _trace(jobs, charges)
    placement = SimulatedPlacement.named(policy.style)
    tenants = options.tenants.simulated(policy.rule) if policy.rule and options.tenants else None
    return _simulated(policy.name, trace, options, charges, placement, policy.reports, tenants)


def _simulated(
    policy: str,
    trace: Trace,
    options: Options,
    charges: Charges,
    placement: SimulatedPlacement | None,
    reports: bool,
    tenants: SimulatedTenants | None = None,
) -> float:
    config = replace(PolicyConfig.paper(policy), thresholds=options.thresholds, min_run=MIN_RUN_S)
    cost = Cost(charges.pause, charges.resume)
    effect = None if placement is None else replace(placement, effect=options.placement_effect)
    common = Setup(
        "", trace, options.size, config, cost, by_node=effect is not None, placement=effect,
        reporting=options.reporting if reports else None, tenants=tenants,
    )  # fmt: skip
    outcome = simulate(trace, options.size, common.experiment(policy).rules)
    return float((outcome.finish - trace.submit).mean()) + charges.arrival - charges.release


def _fifo(jobs: Sequence[TraceJob], options: Options, charges: Charges) -> float:
    return _simulated("fifo", _trace(jobs, charges), options, charges, None, False)


def _backfill(jobs: Sequence[TraceJob], options: Options, charges: Charges) -> float:
    limits = [setup.time_limit(job, options) * 60.0 * options.time_scale for job in jobs]
    batch = [
        BatchJob(job.submit_time, job.num_gpus, _held(job, charges), max(limit, _held(job, charges)))
        for job, limit in zip(jobs, limits, strict=True)
    ]
    held = [end - job.submit for end, job in zip(ends(batch, options.gpus), batch, strict=True)]
    return float(np.mean(held)) + charges.arrival - charges.release
