"""Helios: `cluster_log.csv` of S-Lab-System-Group/HeliosData (SC'21), a Slurm accounting log.

A job's duration is its end minus its start, which its column `duration` holds too.
"""

from __future__ import annotations

from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, read_table
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat, has_columns

LAYOUT = Layout(
    numbers={
        "gpu_num": cells.numbers_or_nothing,
        "submit_time": cells.moments,
        "start_time": cells.moments,
        "end_time": cells.moments,
    },
    words={"job_id": cells.ids, "user": cells.words, "vc": cells.words, "state": cells.words},
)


def read(source: TraceFile) -> TraceColumns:
    """Read the jobs of a file of this format."""
    table = read_table(source, LAYOUT)
    numbers, words = table.numbers, table.words
    return TraceColumns(
        words["job_id"],
        numbers["submit_time"],
        numbers["gpu_num"],
        numbers["end_time"] - numbers["start_time"],
        user=words["user"],
        vc=words["vc"],
        status=words["state"],
    )


FORMAT = TraceFormat(
    "Helios, cluster_log.csv", lambda head: has_columns(head, "job_id", "vc", "gpu_num", "submit_time"), read
)
