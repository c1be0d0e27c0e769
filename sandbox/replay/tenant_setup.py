"""Tenants as Slurm has them in a replay: accounts, and under Slurm's own policies their shares, limits or partitions.

slurm-fairshare  priority/multifactor: jobs in the order of fair share alone, the share of an account being the GPUs that its tenant
                 owns. The half-life of the usage is Slurm's default of seven days, in the trace's time.
slurm-grptres    GrpTRES=gres/gpu=N of each account, N being the GPUs that its tenant owns; jobs in the order of their submissions.
slurm-private    a partition for each tenant, with nodes of its own

All of them have sched/backfill, and no preemption. A job has one CPU for each GPU, so that the usage by CPUs, which Slurm
counts by default, is that by GPUs.
"""

from __future__ import annotations

from tiresias.sandbox import accounts
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.replay.replay_policies import FAIR_SHARE, GROUP_LIMITS, PARTITIONS
from tiresias.sandbox.replay.replay_tenants import ReplayTenants, account
from tiresias.simulator.trace import TraceJob

HALF_LIFE_S = 7 * 86400.0  # of the trace
MINUTE_S = 60.0  # Slurm reads these times in minutes
ONLY_FAIR_SHARE = 1_000_000  # weight of the factor; all others have 0


def slurm_settings(policy: str, time_scale: float) -> dict[str, str]:
    """Return the lines of slurm.conf that a policy needs."""
    if policy != FAIR_SHARE:
        return {}
    return {
        "PriorityType": "priority/multifactor",
        "PriorityWeightFairshare": str(ONLY_FAIR_SHARE),
        "PriorityDecayHalfLife": str(max(1, round(HALF_LIFE_S / time_scale / MINUTE_S))),
        "PriorityCalcPeriod": "1",
    }


def sbatch_options(job: TraceJob, policy: str) -> list[str]:
    """Return the options by which a job belongs to its tenant."""
    name = account(job.vc)
    return [f"--account={name}", *([f"--partition={name}"] if policy == PARTITIONS else [])]


def prepare(cluster: Cluster, policy: str, tenants: ReplayTenants, users: tuple[str, ...]) -> None:
    """Make the accounts and, for slurm-private, the partitions.

    Raises:
        TiresiasError: Slurm refuses them.
    """
    names = tenants.accounts
    accounts.add(cluster, {names[each]: _options(policy, tenants.gpus(each)) for each in names}, users)
    for tenant in names if policy == PARTITIONS else ():
        nodes = ",".join(cluster.spec.node_names[row] for row in tenants.nodes[tenant])
        words = [f"PartitionName={names[tenant]}", f"Nodes={nodes}", "MaxTime=INFINITE", "State=UP"]
        cluster.run(["scontrol", "create", *words], user="slurm")


def _options(policy: str, gpus: int) -> list[str]:
    if policy == GROUP_LIMITS:
        return [f"GrpTRES=gres/gpu={gpus}"]
    return [f"fairshare={gpus}"] if policy == FAIR_SHARE else []
