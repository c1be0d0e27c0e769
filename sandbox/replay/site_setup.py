"""Makes accounts and QOS of a replay with --shares in slurmdbd."""

from __future__ import annotations

from tiresias.sandbox import accounts
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.replay.shared_site import ACCOUNTS, NORMAL, URGENT, SharedSite, preempts


def prepare(cluster: Cluster, policy: str, site: SharedSite) -> None:
    """Make the accounts and the QOS. slurmctld restarts: it computes the fair shares of new accounts only once a minute.

    Raises:
        TiresiasError: Slurm refuses them.
    """
    preemption = [f"preempt={NORMAL}"] if preempts(policy) else []
    cluster.run(["sacctmgr", "-i", "add", "qos", URGENT, "priority=100", *preemption])
    for (user, account), share in zip(ACCOUNTS.items(), site.shares, strict=True):
        options = [f"fairshare={share}", f"qos={NORMAL},{URGENT}", f"defaultqos={NORMAL}"]
        accounts.add(cluster, {account: options}, (user,))
    cluster.restart_slurmctld()
