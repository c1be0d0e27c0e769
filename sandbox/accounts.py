"""Accounts of a private cluster with slurmdbd: what `sacctmgr` stores and slurmctld has received."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.startup import wait_until

RECEIVED_TIMEOUT_S = 60.0


def add(cluster: Cluster, accounts: Mapping[str, Sequence[str]], users: Sequence[str]) -> None:
    """Add accounts that all of these users may use, and wait until slurmctld accepts jobs of them.

    Args:
        cluster: One with accounting.
        accounts: Options of `sacctmgr add account` by name, such as "fairshare=8" or "GrpTRES=gres/gpu=8".
        users: Users of the cluster.

    Raises:
        TiresiasError: sacctmgr refuses something, or slurmctld does not receive it.
    """
    for name, options in accounts.items():
        cluster.run(["sacctmgr", "-i", "add", "account", name, *options])
    names = ",".join(accounts)
    cluster.run(["sacctmgr", "-i", "add", "user", ",".join(users), f"account={names}"])
    wanted = {(name, user) for name in accounts for user in users}
    wait_until(
        lambda: wanted <= _received(cluster),
        RECEIVED_TIMEOUT_S,
        lambda: f"slurmctld has not received the accounts {', '.join(accounts)} of {', '.join(users)}",
    )


def _received(cluster: Cluster) -> set[tuple[str, str]]:
    """Return account and user of each association that slurmctld has."""
    text = cluster.run(["scontrol", "-o", "show", "assoc_mgr", "flags=assoc"], check=False).stdout
    rows = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in text.splitlines()]
    return {(row.get("Account", ""), row.get("UserName", "").partition("(")[0]) for row in rows}
