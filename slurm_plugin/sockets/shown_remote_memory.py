"""The remote memory of jobs and of the cluster, as the control socket publishes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tiresias.protocol.remote_memory_license import LICENSE, MIB_OF_ONE
from tiresias.protocol.remote_memory_use import PAGE_BYTES, RemoteMemoryUse
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.slurm_rules import License, SlurmRules
from tiresias.slurm_plugin.observation.pooled_memory import remote_memory

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication

MOST_LISTED = 20  # donors, and nodes without it, of one job
_MIB = 1 << 20


def license_of(rules: SlurmRules) -> License | None:
    """Return the licence of remote memory; None where the site has none."""
    return rules.licenses.get(LICENSE)


def pool_of(newest: Publication) -> dict[str, Any] | None:
    """Return the remote memory of the cluster in MiB; None without the licence. O(jobs)."""
    license_ = newest.memory_license
    if license_ is None:
        return None
    total = max(license_.total - license_.reserved - license_.deficit, 0.0) * MIB_OF_ONE
    promised = sum(remote_memory(job) for job in newest.slurm.jobs if job.licenses and job.shares)
    lendable = newest.snapshot.nodes.lendable
    return {
        "total": total,
        "free": max(total - promised, 0.0),
        "lendable": None if lendable is None else float(int(lendable.sum())),
    }


def of_job(newest: Publication, job: SlurmJob) -> dict[str, Any]:
    """Return the keys of a job about its remote memory."""
    found = newest.memory_uses.get(job.id)
    return {"remote_memory": remote_memory(job), "remote_memory_use": shown_use(found) if found else None}


def shown_use(uses: Sequence[RemoteMemoryUse]) -> dict[str, Any]:
    """Return the sums of the reports of a job's nodes."""
    lent: Counter[str] = Counter()
    for one in uses:
        lent.update(one.lent)
    refused = [[one.node, one.refused] for one in uses if one.refused]
    return {
        "nodes": len(uses) - len(refused),
        "time": min(one.time for one in uses),
        "requested": sum(one.requested for one in uses) / _MIB,
        "written": _mib(one.pages_out for one in uses),
        "read": _mib(one.pages_in for one in uses),
        "from_donors": _mib(one.from_donors for one in uses),
        "from_queue": _mib(one.from_queue for one in uses),
        "from_disk": _mib(one.from_disk for one in uses),
        "seconds": round(sum(one.seconds for one in uses), 3),
        "lent": sum(lent.values()) / _MIB,
        "donors": [[donor, size / _MIB] for donor, size in lent.most_common(MOST_LISTED)],
        "refused": refused[:MOST_LISTED],
    }


def _mib(pages: Iterable[int]) -> float:
    return round(sum(pages) * PAGE_BYTES / _MIB, 3)
