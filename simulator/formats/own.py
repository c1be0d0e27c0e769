"""The CSV of this project, columns in any order:

    job_id,submit_time,num_gpus,duration[,user,vc,model,status,total_steps,steps,min_gpus,max_gpus,gpu_step,memory]

Times are seconds. A job with `total_steps` reports its progress: it claims so many steps, and makes `steps` (default: the same) in
`duration`, all equally long. A job with `min_gpus` or `max_gpus` (default of the other one: `num_gpus`) is elastic: its size
differs from `num_gpus`, at which it takes `duration`, by multiples of `gpu_step` (default: 1). `memory` is in GB, on all nodes of a
job together.

It is made for the simulator, so whatever cannot be replayed in it is a mistake: nothing is dropped.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Floats
from tiresias.simulator.elastic_job import ElasticJob
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, Table, read_table, refuse
from tiresias.simulator.formats.trace_columns import TraceColumns, repeated
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat, has_columns

REQUIRED = ("job_id", "submit_time", "num_gpus", "duration")
OPTIONAL = ("user", "vc", "model", "status")

STEPS = ("total_steps", "steps")
SIZES = ("min_gpus", "max_gpus", "gpu_step")
MEMORY = "memory"

LAYOUT = Layout(
    numbers={
        "submit_time": cells.seconds,
        "num_gpus": cells.gpus,
        "duration": cells.seconds,
        **dict.fromkeys(STEPS, cells.steps),
        **dict.fromkeys(SIZES, cells.sizes),
        MEMORY: cells.gigabytes,
    },
    words={"job_id": cells.ids, **dict.fromkeys(OPTIONAL, cells.words)},
    optional=frozenset((*OPTIONAL, *STEPS, *SIZES, MEMORY)),
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
        claimed_total=_claimed_total(table), elastic=_elastic(source, table), memory=numbers.get(MEMORY, np.zeros(0)),
    )  # fmt: skip


def _claimed_total(table: Table) -> Floats:
    """Return the seconds of work that each job claims to need in all, nan where it claims nothing; empty: no job claims any."""
    total = table.numbers.get("total_steps", np.zeros(0))
    made = table.numbers.get("steps", total)
    return table.numbers["duration"][: len(total)] * total / np.where(np.isnan(made), total, made)[: len(total)]


def _elastic(source: TraceFile, table: Table) -> list[ElasticJob | None]:
    """Return the sizes of elastic jobs, None for others; empty: no job is elastic."""
    gpus = table.numbers["num_gpus"]
    nothing = np.full(len(gpus), np.nan)
    least, most, step = (table.numbers.get(name, nothing) for name in SIZES)
    is_elastic = ~(np.isnan(least) & np.isnan(most))
    if not is_elastic.any():
        return []
    least, most = (np.where(np.isnan(limit), gpus, limit) for limit in (least, most))
    for name, wrong in (("min_gpus", least > gpus), ("max_gpus", most < gpus)):
        if wrong.any():
            row = int(wrong.argmax())
            limit, side = (least, "most") if name == "min_gpus" else (most, "least")
            why = f"is not possible; write num_gpus ({gpus[row]:.0f}) at {side}"
            refuse(source.file, int(table.lines[row]), name, f"{limit[row]:.0f}", why)
    steps = np.where(np.isnan(step), 1.0, step)
    rows = zip(*(column.astype(np.int64).tolist() for column in (least, most, steps)), strict=True)
    return [ElasticJob(*sizes) if found else None for found, sizes in zip(is_elastic.tolist(), rows, strict=True)]


def _check_ids(source: TraceFile, table: Table) -> None:
    again = np.flatnonzero(repeated(table.words["job_id"]))
    if len(again):
        name = table.words["job_id"][again[0]]
        first = table.lines[table.words["job_id"].index(name)]
        why = f"was used on line {first} already; give every job an id of its own"
        refuse(source.file, int(table.lines[again[0]]), "job_id", name, why)


FORMAT = TraceFormat("the CSV of this project", lambda head: has_columns(head, "job_id"), read, exact=True)
