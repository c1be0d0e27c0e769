"""The workloads of Pollux' artifact, with the completion times that its own simulator found for three schedulers.

A file has the columns load,workload,name,submit_time_s,application,num_replicas,batch_size and, for each scheduler, jct_NAME_s.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, Table, read_table
from tiresias.simulator.formats.trace_file import opened

SCHEDULERS = ("pollux", "optimus", "tiresias")
_LAYOUT = Layout(
    numbers={
        "load": cells.numbers,
        "workload": cells.numbers,
        "submit_time_s": cells.seconds,
        "num_replicas": cells.gpus,
        "batch_size": cells.gpus,
        **{f"jct_{name}_s": cells.seconds for name in SCHEDULERS},
    },
    words={"name": cells.ids, "application": cells.words},
)


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """One workload; arrays of shape (jobs,) in the order of submission.

    Attributes:
        load: Its load, as a multiple of the artifact's.
        number: Its number.
        name: Names of the jobs.
        model: What each trains.
        submit: Submit times, seconds.
        gpus: GPUs that its owner requests where the size is fixed.
        batch: Samples of a step of all GPUs.
        recorded: Job completion times by scheduler, seconds.
    """

    load: float
    number: int
    name: tuple[str, ...]
    model: tuple[str, ...]
    submit: Floats
    gpus: Ints
    batch: Ints
    recorded: dict[str, Floats]


def read_workloads(file: Path) -> list[Workload]:
    """Return the workloads of a file, by load and number.

    Raises:
        UsageError: The file cannot be read, or is no such table.
    """
    with opened(file, lambda rows: None) as source:
        table = read_table(source, _LAYOUT)
    keys = np.stack([table.numbers["load"], table.numbers["workload"]], axis=1)
    return [_of(table, (keys == key).all(axis=1)) for key in np.unique(keys, axis=0)]


def _of(table: Table, belongs: Bools) -> Workload:
    numbers = table.numbers
    rows = np.flatnonzero(belongs)
    rows = rows[np.argsort(numbers["submit_time_s"][rows], kind="stable")]
    name, model = (tuple(table.words[column][row] for row in rows.tolist()) for column in ("name", "application"))
    return Workload(
        float(numbers["load"][rows[0]]),
        int(numbers["workload"][rows[0]]),
        name,
        model,
        numbers["submit_time_s"][rows],
        numbers["num_replicas"][rows].astype(np.int64),
        numbers["batch_size"][rows].astype(np.int64),
        {scheduler: numbers[f"jct_{scheduler}_s"][rows] for scheduler in SCHEDULERS},
    )
