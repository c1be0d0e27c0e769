"""What a policy of a replay runs on, and what it is asked to run. Pure: options in, specifications and texts out.

Our policies (las, adaptive, fifo, best_effort) run in the controller's exact mode; their jobs are submitted with tsbatch, and what
they send is known (profiles.py). las+random and its like put all jobs on nodes in one style, for comparison. slurm-
fifo and slurm-backfill are stock Slurm, sched/builtin and sched/backfill, with the same jobs submitted with plain
sbatch: no supervisor, no hooks.

Each job gets twice its true duration as its time limit, in whole minutes, which is all that Slurm knows. That is more than
users know, and it is what backfilling goes by: a hard opponent. Ours never looks at it. `OverTimeLimit=UNLIMITED`: no job is
killed for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiresias.errors import UsageError
from tiresias.sandbox.slurm_conf import SCHEDULER_PARAMETERS, ClusterSpec
from tiresias.simulator.models import DEFAULT, MODELS
from tiresias.simulator.simulated_placement import BY_SKEW, STYLES, WAIT_LIMIT_S
from tiresias.simulator.trace import TraceJob

_POLICIES = {
    "las": "Tiresias-L",
    "adaptive": "Tiresias, adaptive",
    "fifo": "Tiresias, FIFO",
    "best_effort": "Tiresias, best effort",
}
OURS = _POLICIES | {
    f"{name}+{style}": f"{label}, {style.replace('_', ' ')}"
    for name, label in _POLICIES.items()
    for style in STYLES
    if style != BY_SKEW
}
STOCK = {"slurm-fifo": "Slurm FIFO", "slurm-backfill": "Slurm backfill"}
LABELS = OURS | STOCK
USERS = ("alice", "bob")
FOLDER = "/shared/replay"  # inside the cluster
SCRIPT = '#!/bin/bash\nexec python3 -m tiresias.sandbox.trainer "$@"\n'
FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}", re.ASCII)
THRESHOLD = 3200.0  # GPU-seconds: the paper's testbed, section 5.2
MIN_RUN = 60.0  # seconds
PREEMPTION_COST = 60.0  # seconds, for adaptive
LIMIT_FACTOR = 2.0  # time limit over true duration
CHECKPOINT_EVERY = 600.0  # seconds


@dataclass(frozen=True, slots=True)
class Options:
    """Times are the trace's; time_scale says how many of its seconds pass in one of ours."""

    time_scale: float = 30.0
    nodes: int = 15
    gpus_per_node: int = 4
    suite: str = "forky"
    thresholds: tuple[float, ...] = (THRESHOLD,)
    placement_effect: bool = True
    accounting: bool = False  # slurmdbd too

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


def check(policies: Sequence[str], jobs: Sequence[TraceJob]) -> None:
    """Raises UsageError for what cannot be replayed."""
    for name in policies:
        if name not in LABELS:
            raise UsageError(
                f"no policy {name!r} here: use some of {', '.join(_POLICIES | STOCK)}, or las+random, where a placement of "
                f"{', '.join(STYLES)} comes after the plus"
            )
    for job in jobs:
        if not FILE_NAME.fullmatch(job.job_id):
            raise UsageError(
                f"job id {job.job_id!r:.80} names a file here: use letters, digits, '.', '_' and '-', 80 at most"
            )


def take(jobs: Sequence[TraceJob], count: int, compress: float) -> list[TraceJob]:
    """The first `count` jobs (0: all), their arrivals `compress` times closer together, from zero."""
    chosen = jobs[:count] if count else jobs
    first = chosen[0].submit_time
    return [replace(job, submit_time=(job.submit_time - first) / compress) for job in chosen]


def cluster_spec(policy: str, options: Options, name: str) -> ClusterSpec:
    settings = {"SchedulerParameters": f"{SCHEDULER_PARAMETERS},bf_resolution=1", "OverTimeLimit": "UNLIMITED"}
    return ClusterSpec(
        name=name, suite=options.suite, nodes=options.nodes, gpus_per_node=options.gpus_per_node,
        cpus_per_node=max(16, options.gpus_per_node), scheduler="builtin" if policy == "slurm-fifo" else "backfill",
        hooks=policy in OURS, accounting=options.accounting, settings=settings,
    )  # fmt: skip


def controller_config(policy: str, options: Options) -> str:
    """tiresias.toml: the paper's knobs divided by the time scale, and a controller as quick as the cluster is."""
    scale, (name, _, style) = options.time_scale, policy.partition("+")
    return f"""\
mode = "exact"
partitions = ["gpu"]
period = 0.25
poll = 0.05

[paths]
state = "/var/lib/tiresias"
run = "/run/tiresias"
control = "/shared/tiresias/control"
checkpoints = "/shared/tiresias/checkpoints"

[policy]
name = "{name}"
thresholds = {[threshold / scale for threshold in options.thresholds]}
min_run = {MIN_RUN / scale}
min_run_cost_factor = 0.0
starve_limit = inf
preemption_cost = {PREEMPTION_COST / scale}

[placement]
style = "{style or BY_SKEW}"
patience = {WAIT_LIMIT_S / scale}

[preemption]
deadline = 30.0
backoff = 5.0
"""


def submission(job: TraceJob, row: int, policy: str, options: Options) -> tuple[str, str, list[str]]:
    """(user, name, command line that submits it): every GPU comes with one task and one CPU, on whatever nodes."""
    gpus, model, name = str(job.num_gpus), model_of(job), name_of(job)
    sbatch = [
        "--parsable", f"--job-name={name}", f"--gpus={gpus}", f"--ntasks={gpus}", "--cpus-per-task=1",
        "--gpus-per-task=1", f"--time={time_limit(job, options)}", f"--output={FOLDER}/output/%j.out",
    ]  # fmt: skip
    trainer = [
        "--job", job.job_id, "--model", model, "--gpus", gpus, "--seconds", str(job.duration),
        "--time-scale", str(options.time_scale), "--gpus-per-node", str(options.gpus_per_node),
        "--checkpoint-every", str(CHECKPOINT_EVERY / options.time_scale), "--results", f"{FOLDER}/results",
        "--placement-effect" if options.placement_effect else "--no-placement-effect",
    ]  # fmt: skip
    program, own = "tsbatch", []
    if policy in STOCK:
        program, own = "sbatch", ["--checkpoints", f"{FOLDER}/checkpoints/{job.job_id}"]
    return user_of(job, row), name, [program, *sbatch, f"{FOLDER}/job.sh", *trainer, *own]


def model_of(job: TraceJob) -> str:
    return job.model.lower() if job.model.lower() in MODELS else DEFAULT


def name_of(job: TraceJob) -> str:
    return f"{model_of(job)}-{job.job_id}"


def user_of(job: TraceJob, row: int) -> str:
    """The trace's own word where the cluster has such a user; the others' jobs go to each in turn."""
    return job.user if job.user in USERS else USERS[row % len(USERS)]


def time_limit(job: TraceJob, options: Options) -> int:
    """Minutes, at least one."""
    return max(1, math.ceil(job.duration * LIMIT_FACTOR / options.time_scale / 60))
