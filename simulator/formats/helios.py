"""Helios: `cluster_log.csv` of S-Lab-System-Group/HeliosData (SC'21), a Slurm accounting log.

A job's duration is its end minus its start, which its column `duration` holds too.
"""

from __future__ import annotations

from tiresias.simulator.formats import cells
from tiresias.simulator.formats.columns import Columns
from tiresias.simulator.formats.format import Format, has_columns
from tiresias.simulator.formats.source import Source
from tiresias.simulator.formats.table import Layout, read_table

LAYOUT = Layout(
    numbers={
        "gpu_num": cells.numbers_or_nothing, "submit_time": cells.moments, "start_time": cells.moments,
        "end_time": cells.moments,
    },
    words={"job_id": cells.ids, "user": cells.words, "vc": cells.words, "state": cells.words},
)  # fmt: skip


def read(source: Source) -> Columns:
    table = read_table(source, LAYOUT)
    numbers, words = table.numbers, table.words
    return Columns(
        words["job_id"], numbers["submit_time"], numbers["gpu_num"], numbers["end_time"] - numbers["start_time"],
        user=words["user"], vc=words["vc"], status=words["state"],
    )  # fmt: skip


FORMAT = Format(
    "Helios, cluster_log.csv", lambda head: has_columns(head, "job_id", "vc", "gpu_num", "submit_time"), read
)
