"""Tables with the moments of each job: `job_id`, `gpu_num`, `submit_time`, `start_time`, `end_time`, `user`, `state`.

A job's duration is its end minus its start.
"""

from __future__ import annotations

from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, read_table
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile

MOMENTS = ("submit_time", "start_time", "end_time")


def read(source: TraceFile, vc: str = "", model: str = "") -> TraceColumns:
    """Read the jobs of a file.

    Args:
        source: The file.
        vc: The column of virtual clusters; "": the file has none.
        model: The column of models; "": the file has none.
    """
    numbers = {"gpu_num": cells.numbers_or_nothing, **dict.fromkeys(MOMENTS, cells.moments)}
    words = dict.fromkeys(filter(None, ("user", "state", vc, model)), cells.words)
    table = read_table(source, Layout(numbers, {"job_id": cells.ids, **words}))
    submit, start, end = (table.numbers[name] for name in MOMENTS)
    return TraceColumns(
        table.words["job_id"],
        submit,
        table.numbers["gpu_num"],
        end - start,
        user=table.words["user"],
        vc=table.words.get(vc, ()),
        model=table.words.get(model, ()),
        status=table.words["state"],
        finish=end,
    )
