"""Acme: `trace_seren.csv` and `trace_kalos.csv` of InternLM/AcmeTrace (NSDI'24).

A job's duration is its end minus its start. The column `duration` of Kalos is not read: it holds the end minus the submission.
The kind of work (pretraining, evaluation, debugging) becomes the model.
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
    words={"job_id": cells.ids, "user": cells.words, "type": cells.words, "state": cells.words},
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
        model=words["type"],
        status=words["state"],
    )


FORMAT = TraceFormat(
    "Acme, trace_seren.csv or trace_kalos.csv",
    lambda head: has_columns(head, "job_id", "type", "gpu_num", "gpu_time"),
    read,
)
