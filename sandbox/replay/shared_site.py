"""The site of a replay with --shares: two accounts with unequal fair shares, two QOS, and jobs that Tiresias does not manage. Pure.

Every job of the trace belongs to one of two accounts, by its user: users alternate in the order in which they appear. Some of the
jobs are submitted in the QOS `urgent`, which ranks before `normal`: a choice by the seed and the job's id alone, so that it is the
same under each policy. Slurm orders by priority/multifactor: QOS, fair share and age, with its default half-life of usage in the
trace's time.

slurm-qos-requeue  PreemptType=preempt/qos: urgent jobs preempt normal ones, PreemptMode=REQUEUE. Programs save every ten minutes
                   and end at SIGTERM, as programs without a handler do: the work since the last save is lost
slurm-qos-suspend  the same, with PreemptMode=SUSPEND,GANG

With other jobs, so many of each kind, for each job of the trace, arrive at random moments: CPU-only jobs in the managed
partition, and GPU jobs in the partition `other`, which has the same nodes and is not managed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tiresias.errors import UsageError
from tiresias.simulator.trace import TraceJob

QOS_REQUEUE, QOS_SUSPEND = "slurm-qos-requeue", "slurm-qos-suspend"
USERS = ("alice", "bob")
ACCOUNTS = {"alice": "group1", "bob": "group2"}  # the account of each user
URGENT, NORMAL = "urgent", "normal"
CPU_ONLY, UNMANAGED = "cpu-only", "unmanaged"
MOST_CPUS = 8  # of a CPU-only job
MOST_GPUS = 2  # of an unmanaged job
LONGEST_S = 3600.0  # of an unmanaged or CPU-only job, in the trace
HALF_LIFE_S = 7 * 86400.0
REQUEUE_DELAY_S = 120.0  # Slurm's default
MINUTE_S = 60.0  # Slurm reads these times in minutes
SMALLEST_SLICE_S = 5  # SchedulerTimeSlice
_PREEMPTION = {QOS_REQUEUE: "REQUEUE", QOS_SUSPEND: "SUSPEND,GANG"}


@dataclass(frozen=True)
class SharedSite:
    """Accounts, QOS and unmanaged jobs of a replay.

    Attributes:
        shares: Fair shares of the two accounts.
        urgent: Share of the jobs in the QOS `urgent`.
        seed: Of their choice, and of the other jobs.
        user_of: The cluster's user for each user of the trace.
        others: The CPU-only and the unmanaged jobs.
        kinds: By id of one of `others`, its kind.
        cpus: By id of a CPU-only job, its CPUs.
    """

    shares: tuple[int, int]
    urgent: float
    seed: int
    user_of: Mapping[str, str] = field(default_factory=dict)
    others: tuple[TraceJob, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    cpus: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, jobs: Sequence[TraceJob], shares: tuple[int, int], urgent: float, other_jobs: float, seed: int
    ) -> SharedSite:
        """Return the site of these jobs.

        Args:
            jobs: Of the trace.
            shares: Fair shares of the two accounts.
            urgent: Share of the jobs in the QOS `urgent`.
            other_jobs: Jobs of each unmanaged kind for each job of the trace.
            seed: Of the choices.

        Raises:
            UsageError: A job of the trace has the id of one of the other jobs.
        """
        names = dict.fromkeys(job.user for job in jobs)
        user_of = {name: USERS[row % len(USERS)] for row, name in enumerate(names)}
        dice, count = random.Random(f"others {seed}"), round(len(jobs) * other_jobs)
        others = [_other(kind, row, jobs, dice) for kind in (CPU_ONLY, UNMANAGED) for row in range(count)]
        kinds = {job.job_id: job.job_id.rpartition("-")[0] for job in others}
        if taken := next((job.job_id for job in jobs if job.job_id in kinds), ""):
            raise UsageError(f"job id {taken!r} of the trace is that of one of --other-jobs: rename it")
        cpus = {name: dice.randint(1, MOST_CPUS) for name, kind in kinds.items() if kind == CPU_ONLY}
        return cls(shares, urgent, seed, user_of, tuple(others), kinds, cpus)

    def with_others(self, jobs: Sequence[TraceJob]) -> list[TraceJob]:
        """Return the jobs of the trace and the other ones, in the order of their submissions."""
        return sorted([*jobs, *self.others], key=lambda job: job.submit_time)

    def kind(self, job_id: str) -> str:
        """Return the kind of an unmanaged job; "" for a job of the trace."""
        return self.kinds.get(job_id, "")

    def user(self, job: TraceJob) -> str:
        """Return the user of the cluster that submits a job."""
        return self.user_of.get(job.user, USERS[0])

    def is_urgent(self, job: TraceJob) -> bool:
        """Return whether the job is submitted in the QOS `urgent`."""
        return not self.kind(job.job_id) and random.Random(f"qos {self.seed} {job.job_id}").random() < self.urgent

    def sbatch_options(self, job: TraceJob) -> list[str]:
        """Return the options that differ from those of a replay without accounts: account, QOS, partition."""
        qos = URGENT if self.is_urgent(job) else NORMAL
        partition = ["--partition=other"] if self.kind(job.job_id) == UNMANAGED else []
        return [f"--account={ACCOUNTS[self.user(job)]}", f"--qos={qos}", *partition]

    def resources(self, job: TraceJob) -> list[str]:
        """Return the sbatch options for the CPUs and GPUs of an unmanaged job."""
        if self.kind(job.job_id) == CPU_ONLY:
            return ["--ntasks=1", f"--cpus-per-task={self.cpus[job.job_id]}"]
        gpus = job.num_gpus
        return [f"--gpus={gpus}", f"--ntasks={gpus}", "--cpus-per-task=1", "--gpus-per-task=1"]


def preempts(policy: str) -> bool:
    """Return whether Slurm itself preempts jobs under this policy."""
    return policy in _PREEMPTION


def slurm_settings(policy: str, time_scale: float, scheduler_parameters: str) -> dict[str, str]:
    """Return the lines of slurm.conf that a policy needs."""
    delay = max(1, round(REQUEUE_DELAY_S / time_scale))
    common = {
        "PriorityType": "priority/multifactor",
        "PriorityWeightQOS": "20000",
        "PriorityWeightFairshare": "10000",
        "PriorityWeightAge": "1000",
        "PriorityMaxAge": _minutes(HALF_LIFE_S / time_scale),
        "PriorityDecayHalfLife": _minutes(HALF_LIFE_S / time_scale),
        "PriorityCalcPeriod": "1",
        "SchedulerParameters": f"{scheduler_parameters},requeue_delay={delay}",
    }
    if not preempts(policy):
        return common
    common |= {"PreemptType": "preempt/qos", "PreemptMode": _PREEMPTION[policy]}
    if policy == QOS_SUSPEND:
        common |= {"PartitionName": "DEFAULT OverSubscribe=FORCE:1", "SchedulerTimeSlice": str(SMALLEST_SLICE_S)}
    return common


def wait_of(kind: str) -> str:
    """Return the key of the mean wait for the first start of unmanaged jobs of this kind."""
    return f"{kind.replace('-', '_')}_wait"


def kinds_of(jobs: Iterable[TraceJob], site: SharedSite) -> set[str]:
    """Return the kinds of unmanaged jobs among these."""
    return {site.kind(job.job_id) for job in jobs} - {""}


def _other(kind: str, row: int, jobs: Sequence[TraceJob], dice: random.Random) -> TraceJob:
    """Return one unmanaged job: a random user and duration of the trace, submitted while the jobs of the trace arrive."""
    like = dice.choice(jobs)
    gpus = 1 if kind == CPU_ONLY else dice.randint(1, MOST_GPUS)
    submit = dice.uniform(0.0, max(job.submit_time for job in jobs))
    return TraceJob(f"{kind}-{row}", submit, gpus, min(like.duration, LONGEST_S), like.user, "", "", "")


def _minutes(seconds: float) -> str:
    return str(max(1, round(seconds / MINUTE_S)))
