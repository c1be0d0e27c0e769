"""Helios: `cluster_log.csv` of S-Lab-System-Group/HeliosData (SC'21), a Slurm accounting log.

The column `duration` holds the end minus the start, too, and is not read.
"""

from __future__ import annotations

from functools import partial

from tiresias.simulator.formats import start_and_end
from tiresias.simulator.formats.trace_format import TraceFormat, has_columns

FORMAT = TraceFormat(
    "Helios, cluster_log.csv",
    lambda head: has_columns(head, "job_id", "vc", "gpu_num", "submit_time"),
    partial(start_and_end.read, vc="vc"),
)
