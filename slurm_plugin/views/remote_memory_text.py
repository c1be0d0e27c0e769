"""The remote memory of a job and of the cluster, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from tiresias.slurm_plugin.views.table_layout import FAINT, styled, wrapped
from tiresias.slurm_plugin.views.text import duration, printable

if TYPE_CHECKING:
    from tiresias.protocol.published_job import PublishedJob, PublishedMemoryUse
    from tiresias.protocol.status import PublishedRemoteMemory, Status

_MOST_NODES = 3  # of which a refusal is shown
_GIB = 1024.0


def size_text(mib: float) -> str:
    """Return a size with two or three digits that count."""
    if mib < _GIB:
        return f"{mib:,.0f} MiB"
    return f"{mib / _GIB:,.1f} GiB" if mib < 100 * _GIB and mib % _GIB else f"{mib / _GIB:,.0f} GiB"


def pool_lines(status: Status, width: int) -> list[Text]:
    """Return the line about the cluster's remote memory; none where the site has none."""
    pool = status.get("remote_memory")
    return [styled((line, FAINT)) for line in wrapped(f"remote memory: {pool_text(pool)}", width)] if pool else []


def pool_text(pool: PublishedRemoteMemory) -> str:
    """Return what is free of the licence, and what donors can lend."""
    lendable = pool["lendable"]
    by_nodes = "" if lendable is None else f"; the memory of the nodes now allows {size_text(lendable)} more"
    return f"{size_text(pool['free'])} of {size_text(pool['total'])} free{by_nodes}"


def memory_facts(job: PublishedJob, pool: PublishedRemoteMemory | None) -> Iterator[tuple[str, str]]:
    """Yield the facts on the remote memory of a job; none where it requests none."""
    if not (requested := job.get("remote_memory", 0.0)):
        return
    nodes = len(job.get("nodes") or ())
    of_each = f", {size_text(requested / nodes)} on each of {nodes} nodes" if nodes > 1 else ""
    free = f"; {pool_text(pool)}" if pool and not nodes else ""
    yield "remote memory", f"{size_text(requested)} requested{of_each}{free}"
    if use := job.get("remote_memory_use"):
        yield from _use_facts(use)


def _use_facts(use: PublishedMemoryUse) -> Iterator[tuple[str, str]]:
    if use["nodes"]:
        yield "  pages", f"{traffic_text(use)}; {duration(use['seconds'])} in reads and writes"
        each = ", ".join(f"{printable(donor, 100)} {size_text(size)}" for donor, size in use["donors"])
        yield (
            "  donors",
            f"{size_text(use['lent'])} lent{f': {each}' if each else ''}; the local disk has a copy of each page",
        )
    if refused := use["refused"]:
        words = "; ".join(f"{printable(node, 100)}: {printable(why, 300)}" for node, why in refused[:_MOST_NODES])
        more = f"; {len(refused) - _MOST_NODES} more" if len(refused) > _MOST_NODES else ""
        yield "  without it", f"{words}{more}"


def traffic_text(use: PublishedMemoryUse) -> str:
    """Return how much was written and read, and from where."""
    donors, waiting, disk = (size_text(use[key]) for key in ("from_donors", "from_queue", "from_disk"))
    sources = f"{donors} from donors, {waiting} from the queue of the disk, {disk} from the disk"
    return f"{size_text(use['written'])} out, {size_text(use['read'])} in: {sources}"


def memory_words(job: PublishedJob) -> str:
    """Return the remote memory of a job for its line in the list of jobs; "" where it requests none."""
    if not (requested := job.get("remote_memory", 0.0)):
        return ""
    use = job.get("remote_memory_use")
    if use and use["refused"] and not use["nodes"]:
        return "runs without the remote memory that it requests"
    moved = f": {size_text(use['written'])} out, {size_text(use['read'])} in" if use else ""
    return f"{size_text(requested)} of remote memory{moved}"
