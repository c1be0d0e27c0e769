"""The traces of SymbioticLab/Tiresias' simulator: `job_id,num_gpu,submit_time,iterations,model_name,duration,interval`, seconds."""

from __future__ import annotations

from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, read_table
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat, has_columns

LAYOUT = Layout(
    numbers=dict.fromkeys(("num_gpu", "submit_time", "duration"), cells.numbers_or_nothing),
    words={"job_id": cells.ids, "model_name": cells.words},
)


def read(source: TraceFile) -> TraceColumns:
    """Read the jobs of a file of this format."""
    table = read_table(source, LAYOUT)
    numbers, words = table.numbers, table.words
    return TraceColumns(
        words["job_id"], numbers["submit_time"], numbers["num_gpu"], numbers["duration"], model=words["model_name"]
    )


FORMAT = TraceFormat(
    "the CSV of SymbioticLab/Tiresias",
    lambda head: has_columns(head, "job_id", "num_gpu", "submit_time", "model_name"),
    read,
)
