"""The remote memory of a job and of the cluster, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from tiresias.protocol.remote_memory_use import size_words
from tiresias.slurm_plugin.views.table_layout import FAINT, styled, wrapped
from tiresias.slurm_plugin.views.text import duration, printable

if TYPE_CHECKING:
    from tiresias.protocol.published_job import PublishedJob, PublishedMemoryUse
    from tiresias.protocol.status import PublishedRemoteMemory, Status

_MOST_NODES = 3  # of which a refusal is shown


def pool_lines(status: Status, width: int) -> list[Text]:
    """Return the line about the cluster's remote memory; none where the site has none."""
    pool = status.get("remote_memory")
    return [styled((line, FAINT)) for line in wrapped(f"remote memory: {pool_text(pool)}", width)] if pool else []


def pool_text(pool: PublishedRemoteMemory) -> str:
    """Return what is free of the licence, and what donors can lend."""
    lendable = pool["lendable"]
    by_nodes = "" if lendable is None else f"; the memory of the nodes now allows {size_words(lendable)} more"
    return f"{size_words(pool['free'])} of {size_words(pool['total'])} free{by_nodes}"


def memory_facts(job: PublishedJob, pool: PublishedRemoteMemory | None) -> Iterator[tuple[str, str]]:
    """Yield the facts on the remote memory of a job; none where it requests none."""
    use = job.get("remote_memory_use")
    if not (requested := job.get("remote_memory", 0.0) or (use["requested"] if use else 0.0)) and not use:
        return
    nodes = len(job.get("nodes") or ())
    of_each = f", {size_words(requested / nodes)} on each of {nodes} nodes" if nodes > 1 else ""
    free = f"; {pool_text(pool)}" if pool and not nodes else ""
    yield "remote memory", f"{size_words(requested)} requested{of_each}{free}"
    if use:
        yield from _use_facts(use)


def _use_facts(use: PublishedMemoryUse) -> Iterator[tuple[str, str]]:
    if use["nodes"]:
        yield "  pages", f"{traffic_text(use)}; {duration(use['seconds'])} in reads and writes"
        each = ", ".join(f"{printable(donor, 100)} {size_words(size)}" for donor, size in use["donors"])
        yield (
            "  donors",
            f"{size_words(use['lent'])} lent{f': {each}' if each else ''}; the local disk has a copy of each page",
        )
    if refused := use["refused"]:
        words = "; ".join(f"{printable(node, 100)}: {printable(why, 300)}" for node, why in refused[:_MOST_NODES])
        more = f"; {len(refused) - _MOST_NODES} more" if len(refused) > _MOST_NODES else ""
        yield "  without it", f"{words}{more}"


def traffic_text(use: PublishedMemoryUse) -> str:
    """Return how much was written and read, and from where."""
    donors, waiting, disk = (size_words(use[key]) for key in ("from_donors", "from_queue", "from_disk"))
    sources = f"{donors} from donors, {waiting} from the queue of the disk, {disk} from the disk"
    return f"{size_words(use['written'])} out, {size_words(use['read'])} in: {sources}"


def memory_words(job: PublishedJob) -> str:
    """Return the remote memory of a job for its line in the list of jobs; "" where it requests none."""
    if not (requested := job.get("remote_memory", 0.0)):
        return ""
    use = job.get("remote_memory_use")
    if use and use["refused"] and not use["nodes"]:
        return "runs without the remote memory that it requests"
    moved = f": {size_words(use['written'])} out, {size_words(use['read'])} in" if use else ""
    without = f"; {len(use['refused'])} of its nodes without it" if use and use["refused"] else ""
    return f"{size_words(requested)} of remote memory{moved}{without}"
