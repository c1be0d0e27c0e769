"""Alibaba 2023: `openb_pod_list_*.csv` of alibaba/clusterdata (cluster-trace-gpu-v2023, ATC'23), a row a pod.

A pod that requests a part of a GPU gets a whole one here; the part becomes its model: share460 is 46%. A pod runs from its
scheduling to its deletion. One that never was scheduled has no start. In this trace a pod's phase is independent of its end: pods
that still ran when the trace was taken have its last moment as their deletion, and are replayed up to there.
"""

from __future__ import annotations

import numpy as np

from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, read_table
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat, has_columns

TIMES = ("creation_time", "scheduled_time", "deletion_time")
WHOLE = 1000  # thousandths of a GPU

LAYOUT = Layout(
    numbers=dict.fromkeys(("num_gpu", "gpu_milli", *TIMES), cells.numbers_or_nothing),
    words={"name": cells.ids, "qos": cells.words, "pod_phase": cells.words},
)


def read(source: TraceFile) -> TraceColumns:
    """Read the jobs of a file of this format."""
    table = read_table(source, LAYOUT)
    numbers, words = table.numbers, table.words
    created, scheduled, deleted = (numbers[name] for name in TIMES)
    milli = np.nan_to_num(numbers["gpu_milli"], nan=WHOLE).astype(np.int64).tolist()
    shares = [f"share{share}" if 0 < share < WHOLE else "" for share in milli]
    return TraceColumns(
        words["name"],
        created,
        numbers["num_gpu"],
        deleted - scheduled,
        vc=words["qos"],
        model=cells.words(shares),
        status=words["pod_phase"],
    )


FORMAT = TraceFormat(
    "Alibaba 2023, openb_pod_list_*.csv",
    lambda head: has_columns(head, "name", "num_gpu", "gpu_milli", "creation_time"),
    read,
)
