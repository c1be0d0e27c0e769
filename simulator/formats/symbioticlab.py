"""The traces of SymbioticLab/Tiresias' simulator: `job_id,num_gpu,submit_time,iterations,model_name,duration,interval`, seconds."""

from __future__ import annotations

from tiresias.simulator.formats import cells
from tiresias.simulator.formats.columns import Columns
from tiresias.simulator.formats.format import Format, has_columns
from tiresias.simulator.formats.source import Source
from tiresias.simulator.formats.table import Layout, read_table

LAYOUT = Layout(
    numbers=dict.fromkeys(("num_gpu", "submit_time", "duration"), cells.numbers_or_nothing),
    words={"job_id": cells.ids, "model_name": cells.words},
)


def read(source: Source) -> Columns:
    table = read_table(source, LAYOUT)
    numbers, words = table.numbers, table.words
    return Columns(
        words["job_id"], numbers["submit_time"], numbers["num_gpu"], numbers["duration"], model=words["model_name"]
    )


FORMAT = Format(
    "the CSV of SymbioticLab/Tiresias",
    lambda head: has_columns(head, "job_id", "num_gpu", "submit_time", "model_name"),
    read,
)
