"""The CSV of this project: `job_id,submit_time,num_gpus,duration[,user,vc,model,status,total_steps,steps]`, columns in any order.

Times are seconds. A job with `total_steps` reports its progress: it claims so many steps, and makes `steps` (default: the same) in
`duration`, all equally long.

It is made for the simulator, so whatever cannot be replayed in it is a mistake: nothing is dropped.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Floats
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, Table, read_table, refuse
from tiresias.simulator.formats.trace_columns import TraceColumns, repeated
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat, has_columns

REQUIRED = ("job_id", "submit_time", "num_gpus", "duration")
OPTIONAL = ("user", "vc", "model", "status")

STEPS = ("total_steps", "steps")

LAYOUT = Layout(
    numbers={
        "submit_time": cells.seconds,
        "num_gpus": cells.gpus,
        "duration": cells.seconds,
        **dict.fromkeys(STEPS, cells.steps),
    },
    words={"job_id": cells.ids, **dict.fromkeys(OPTIONAL, cells.words)},
    optional=frozenset((*OPTIONAL, *STEPS)),
    closed=True,
)


def read(source: TraceFile) -> TraceColumns:
    """Read the jobs of a file of this format."""
    table = read_table(source, LAYOUT)
    numbers, words = table.numbers, table.words
    _check_ids(source, table)
    user, vc, model, status = (words.get(name, ()) for name in OPTIONAL)
    return TraceColumns(
        words["job_id"], numbers["submit_time"], numbers["num_gpus"], numbers["duration"], user, vc, model, status,
        claimed_total=_claimed_total(table),
    )  # fmt: skip


def _claimed_total(table: Table) -> Floats:
    """Return the seconds of work that each job claims to need in all, nan where it claims nothing; empty: no job claims any."""
    total = table.numbers.get("total_steps", np.zeros(0))
    made = table.numbers.get("steps", total)
    return table.numbers["duration"][: len(total)] * total / np.where(np.isnan(made), total, made)[: len(total)]


def _check_ids(source: TraceFile, table: Table) -> None:
    again = np.flatnonzero(repeated(table.words["job_id"]))
    if len(again):
        name = table.words["job_id"][again[0]]
        first = table.lines[table.words["job_id"].index(name)]
        why = f"was used on line {first} already; give every job an id of its own"
        refuse(source.file, int(table.lines[again[0]]), "job_id", name, why)


FORMAT = TraceFormat("the CSV of this project", lambda head: has_columns(head, "job_id"), read, exact=True)
