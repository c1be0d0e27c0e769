"""The table of queues: bounds of attained service, and jobs and GPUs that run and wait in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from tiresias.slurm_plugin.views.table_layout import (
    Cell,
    Column,
    fitted,
    heading,
    row_line,
)
from tiresias.slurm_plugin.views.text import service

if TYPE_CHECKING:
    from tiresias.protocol.status import PublishedQueue

_SERVICE, _ROOMY = "attained service", 26  # a column, and its width in cells where there are enough of them
_QUEUES = (
    Column("queue", 5),
    Column(_SERVICE, 16, share=1),
    Column("running", 7, right=True),
    Column("GPUs", 4, right=True),
    Column("waiting", 7, right=True),
    Column("GPUs ", 4, right=True),
)


def queue_table(queues: Sequence[PublishedQueue], width: int) -> list[Text]:
    """Return the table of queues with its heading."""
    rows = [_queue_cells(queue) for queue in queues]
    limit = max([_ROOMY, *(cell_len(row[_SERVICE][0]) for row in rows)])
    columns = [replace(each, limit=limit) if each.title == _SERVICE else each for each in _QUEUES]
    widths = fitted(columns, width, rows)
    return [heading(columns, widths), *(row_line(columns, widths, row) for row in rows)]


def _queue_cells(queue: PublishedQueue) -> dict[str, Cell]:
    low, high = service(queue["low"]), queue["high"]
    return {
        "queue": (f"Q{queue['index'] + 1}", "bold"),
        _SERVICE: ((f"from {low}" if high is None else f"below {service(high)}") + _pool(queue), ""),
        "running": (str(queue["running"]), "green"),
        "GPUs": (str(queue["gpus_running"]), "green"),
        "waiting": (str(queue["waiting"]), "yellow"),
        "GPUs ": (str(queue["gpus_waiting"]), "yellow"),
    }


def _pool(queue: PublishedQueue) -> str:
    """Of which jobs the queue is, where there are several pools."""
    if "virtual_cluster" in queue:
        return f" ({queue['virtual_cluster'] or 'no virtual cluster'})"
    return f" ({', '.join(queue['partitions'])})" if queue.get("partitions") else ""
