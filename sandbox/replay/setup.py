"""Clusters, configurations and commands of a replay, by policy. Pure.

The controller's policies (replay_policies.py) run in its mode exact, `assist` in mode assist; their jobs are submitted with
tsbatch, and their traffic is known (model_profiles.py). slurm-fifo and slurm-backfill are unmodified Slurm, sched/builtin and
sched/backfill, with the same jobs submitted by sbatch: no supervisor, no hooks. What Slurm's policies with tenants are:
tenant_setup.py.

Each job's time limit is twice its true duration, in whole minutes, which is all that Slurm receives. Users' limits are less
accurate, and backfilling depends on them: a strong baseline. Tiresias ignores the limits. `OverTimeLimit=UNLIMITED`: no job
is killed at its limit.

The nodes have an Epilog, as sites have. Without one slurmctld starts the successor of a job not at the job's end but in its next
pass, up to a second later (bench/start_overhead.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiresias.errors import UsageError
from tiresias.protocol.progress import INTERVAL_S
from tiresias.sandbox.replay import shared_site, tenant_setup
from tiresias.sandbox.replay.replay_policies import (
    MANAGED_POLICIES,
    STOCK_POLICIES,
    ReplayPolicy,
    check_names,
    has_tenants,
)
from tiresias.sandbox.replay.replay_tenants import ReplayTenants
from tiresias.sandbox.replay.shared_site import SharedSite
from tiresias.sandbox.slurm_conf import SCHEDULER_PARAMETERS, ClusterSpec
from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.models import DEFAULT, MODELS
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.simulated_placement import WAIT_LIMIT_S
from tiresias.simulator.trace import Trace, TraceJob

USERS = shared_site.USERS
FOLDER = "/shared/replay"  # inside the cluster
SCRIPT = '#!/bin/bash\nexec python3 -m tiresias.sandbox.trainer "$@"\n'
FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}", re.ASCII)
THRESHOLD = 3200.0  # GPU-seconds: the paper's testbed, section 5.2
QUANTUM_S = PolicyConfig().quantum
MIN_RUN_S = 60.0
PREEMPTION_COST_S = 60.0  # for adaptive
LIMIT_FACTOR = 2.0  # time limit / true duration
CHECKPOINT_INTERVAL_S = 600.0
SIZE_FACTOR = 4
COOLDOWN_S = 120.0  # between two changes of the size of a job
EPILOG_S = 0.1
EPILOG = f"#!/bin/sh\nexec sleep {EPILOG_S}\n"
ALL_REPORT = Reporting(1.0)
TIMED_S = 10.0  # of a run, until its reports become a claim


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a replay, in the trace's times; time_scale: seconds of the trace per second."""

    time_scale: float = 30.0
    nodes: int = 15
    gpus_per_node: int = 4
    suite: str = "forky"
    thresholds: tuple[float, ...] = (THRESHOLD,)
    placement_effect: bool = True
    accounting: bool = False  # slurmdbd too
    reporting: Reporting = ALL_REPORT  # which jobs report, where the policy has +reports
    nodes_per_leaf: int = 0  # 0: no topology
    fewest_nodes: bool = False  # jobs request the fewest nodes that hold their GPUs
    tenants: ReplayTenants | None = None
    site: SharedSite | None = None  # accounts with unequal shares, QOS, unmanaged jobs
    sizing: str = "minimum_first"  # of elastic jobs, where the policy has +elastic
    scaling: float = 0.0  # a job with g times its GPUs trains g ** scaling times as fast; 0: as fast

    @property
    def gpus(self) -> int:
        """Number of GPUs of the cluster."""
        return self.nodes * self.gpus_per_node

    @property
    def size(self) -> ClusterSize:
        """The cluster as the simulator has it."""
        return ClusterSize(self.nodes, self.gpus_per_node, self.nodes_per_leaf)

    def kind(self, job: TraceJob) -> str:
        """Return the kind of an unmanaged job; "" for a job of the trace."""
        return self.site.kind(job.job_id) if self.site else ""


def check(
    policies: Sequence[str],
    jobs: Sequence[TraceJob],
    tenants: ReplayTenants | None = None,
    site: SharedSite | None = None,
) -> None:
    """Check policies, jobs, tenants and accounts.

    Raises:
        UsageError: they cannot be replayed.
    """
    check_names(list(policies))
    for job in jobs:
        if not FILE_NAME.fullmatch(job.job_id):
            raise UsageError(
                f"job id {job.job_id!r:.80} is used as a file name: use at most 80 letters, digits, '.', '_' and '-'"
            )
    if tenants and site:
        raise UsageError(
            "--shares and --virtual-clusters exclude each other: tenants are accounts with shares of their own"
        )
    if not site and (preempting := next(filter(shared_site.preempts, policies), "")):
        raise UsageError(f"policy {preempting}: no QOS are declared; give --shares A,B")
    if tenants:
        tenants.check(policies, jobs)
    elif unknown := next((name for name in policies if has_tenants(name)), ""):
        raise UsageError(f"policy {unknown}: no virtual clusters are declared; give --virtual-clusters FILE")


def take(jobs: Sequence[TraceJob], count: int, compress: float) -> list[TraceJob]:
    """Return the first `count` jobs (0: all), with arrivals divided by `compress`, from time 0."""
    chosen = jobs[:count] if count else jobs
    first = chosen[0].submit_time
    return [replace(job, submit_time=(job.submit_time - first) / compress) for job in chosen]


def cluster_spec(policy: str, options: Options, name: str) -> ClusterSpec:
    """Return the cluster's parameters for a policy."""
    scheduler_parameters = f"{SCHEDULER_PARAMETERS},bf_resolution=1"
    site = shared_site.slurm_settings(policy, options.time_scale, scheduler_parameters) if options.site else {}
    settings = {
        "SchedulerParameters": scheduler_parameters,
        "OverTimeLimit": "UNLIMITED",
        "Epilog": f"{FOLDER}/epilog.sh",
        **tenant_setup.slurm_settings(policy, options.time_scale),
        **site,
    }
    return ClusterSpec(
        name=name,
        suite=options.suite,
        nodes=options.nodes,
        gpus_per_node=options.gpus_per_node,
        cpus_per_node=max(16, options.gpus_per_node),
        scheduler="builtin" if policy == "slurm-fifo" else "backfill",
        hooks=policy in MANAGED_POLICIES,
        accounting=options.accounting or options.tenants is not None or options.site is not None,
        topology="tree" if options.nodes_per_leaf else "flat",
        nodes_per_rack=options.nodes_per_leaf or options.nodes,
        settings=settings,
    )


def controller_config(policy: str, options: Options) -> str:
    """Return tiresias.toml: the paper's parameters divided by the time scale, and short periods."""
    scale, chosen = options.time_scale, ReplayPolicy.parsed(policy)
    rule = f'admission = "{chosen.rule}"\n' if chosen.rule else ""
    sizing = f'sizing = "{options.sizing}"\ncooldown = {COOLDOWN_S / scale}\n' if chosen.elastic else ""
    tables = options.tenants.tables() if chosen.rule and options.tenants else ""
    return f"""\
mode = "{"assist" if chosen.assists else "exact"}"
partitions = ["gpu"]
period = 0.25
poll = 0.05

[paths]
state = "/var/lib/tiresias"
run = "/run/tiresias"
control = "/shared/tiresias/control"
checkpoints = "/shared/tiresias/checkpoints"

[policy]
name = "{chosen.name}"
thresholds = {[threshold / scale for threshold in options.thresholds]}
min_run = {MIN_RUN_S / scale}
min_run_cost_factor = 0.0
starve_limit = inf
preemption_cost = {PREEMPTION_COST_S / scale}
quantum = {max(QUANTUM_S / scale, 1.0)}
{sizing}{rule}
[placement]
style = "{chosen.style}"
patience = {WAIT_LIMIT_S / scale}

[progress]
timed = {TIMED_S / scale}

[preemption]
deadline = 30.0
backoff = 5.0
{tables}"""


def reporters(jobs: Sequence[TraceJob], policy: str, options: Options) -> frozenset[str]:
    """Return the ids of the jobs that report their progress: those that report in a simulation of the same jobs."""
    if policy in STOCK_POLICIES or not ReplayPolicy.parsed(policy).reports:
        return frozenset()
    trace = Trace.of(jobs)
    claimed = options.reporting.claims(trace).total
    return frozenset(job for job, total in zip(trace.job_id, claimed, strict=True) if not np.isnan(total))


def submission(
    job: TraceJob, row: int, policy: str, options: Options, reports: bool = False
) -> tuple[str, str, list[str]]:
    """Return (user, name, command line that submits the job): one task and one CPU for every GPU, on any nodes.

    Args:
        job: Of the trace.
        row: Its number in the trace.
        policy: A key of replay_policies.LABELS.
        options: Of the replay.
        reports: Whether the job reports its progress.
    """
    gpus, model, name = str(job.num_gpus), model_of(job), name_of(job)
    is_managed = policy in MANAGED_POLICIES and not options.kind(job)
    is_elastic = is_managed and ReplayPolicy.parsed(policy).elastic
    sbatch = [
        "--parsable",
        f"--job-name={name}",
        *_resources(job, options, is_elastic),
        f"--time={time_limit(job, options)}",
        f"--output={FOLDER}/output/%j.out",
        *([f"--nodes={math.ceil(job.num_gpus / options.gpus_per_node)}"] if options.fewest_nodes else []),
        *(tenant_setup.sbatch_options(job, policy) if options.tenants else []),
        *(options.site.sbatch_options(job) if options.site else []),
    ]
    trainer = [
        "--job", job.job_id, "--model", model, "--gpus", gpus, "--seconds", str(job.duration),
        "--time-scale", str(options.time_scale), "--gpus-per-node", str(options.gpus_per_node),
        "--checkpoint-every", str(CHECKPOINT_INTERVAL_S / options.time_scale), "--results", f"{FOLDER}/results",
        "--placement-effect" if options.placement_effect else "--no-placement-effect",
    ]  # fmt: skip
    if options.scaling:
        trainer += ["--scaling", str(options.scaling)]
    if reports:
        trainer += ["--report-every", str(INTERVAL_S / options.time_scale)]
    program, own = "tsbatch", []
    if not is_managed:
        program, own = "sbatch", ["--checkpoints", f"{FOLDER}/checkpoints/{job.job_id}"]
    if shared_site.preempts(policy):
        own += ["--no-save-at-sigterm"]
    return owner_of(job, row, options), name, [program, *sbatch, f"{FOLDER}/job.sh", *trainer, *own]


def _resources(job: TraceJob, options: Options, is_elastic: bool) -> list[str]:
    """Return the sbatch options for a job's CPUs and GPUs, one task and CPU for each GPU."""
    if options.site and options.kind(job):
        return options.site.resources(job)
    gpus = f"--elastic={sizes_of(job, options)}" if is_elastic else f"--gpus={job.num_gpus}"
    return [gpus, f"--ntasks={job.num_gpus}", "--cpus-per-task=1", "--gpus-per-task=1"]


def sizes_of(job: TraceJob, options: Options) -> str:
    """Return the sizes of an elastic job: from a quarter of the GPUs that it requests to four times as many."""
    return f"{max(job.num_gpus // SIZE_FACTOR, 1)}-{min(job.num_gpus * SIZE_FACTOR, options.gpus)}"


def model_of(job: TraceJob) -> str:
    """Return the job's model, or the default one."""
    return job.model.lower() if job.model.lower() in MODELS else DEFAULT


def name_of(job: TraceJob) -> str:
    """Return the job's name."""
    return f"{model_of(job)}-{job.job_id}"


def user_of(job: TraceJob, row: int) -> str:
    """Return the trace's user if the cluster has one, else alternate between its users."""
    return job.user if job.user in USERS else USERS[row % len(USERS)]


def owner_of(job: TraceJob, row: int, options: Options) -> str:
    """Return the user of the cluster that submits a job."""
    return options.site.user(job) if options.site else user_of(job, row)


def time_limit(job: TraceJob, options: Options) -> int:
    """Return the time limit in minutes, at least one."""
    return max(1, math.ceil(job.duration * LIMIT_FACTOR / options.time_scale / 60))
