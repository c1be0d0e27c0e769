"""Philly: `cluster_job_log` of msr-fiddle/philly-traces (ATC'19), a JSON list of jobs with their attempts.

As in the authors' own analysis: a job's GPUs are those of its first attempt, its duration runs from its first attempt's start to
its last attempt's end. Times are wall-clock times without a zone; the string None stands for none.
"""

from __future__ import annotations

from math import nan

import numpy as np

from tiresias.simulator.formats.json_stream import Record, records
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat

WORDS = ("user", "vc", "status")


def read(source: TraceFile) -> TraceColumns:
    """Read the jobs of a file of this format."""
    ids: list[str] = []
    words: list[list[str]] = [[] for _ in WORDS]
    numbers: list[tuple[float, float, float, float]] = []
    for job in records(source):
        ids.append(job.job_id("jobid"))
        for column, name in zip(words, WORDS, strict=True):
            column.append(job.word(name))
        numbers.append((job.moment("submitted_time"), *_run(job.records("attempts"))))
    submit, gpus, duration, finish = np.array(numbers, np.float64).reshape(-1, 4).T
    user, vc, status = words
    return TraceColumns(ids, submit, gpus, duration, user=user, vc=vc, status=status, finish=finish)


def _run(attempts: list[Record]) -> tuple[float, float, float]:
    """(GPUs, seconds, moment of the end)"""
    if not attempts:
        return nan, nan, nan
    gpus = sum(len(server.items("gpus")) for server in attempts[0].records("detail"))
    end = attempts[-1].moment("end_time")
    return gpus, end - attempts[0].moment("start_time"), end


FORMAT = TraceFormat(
    "Philly, cluster_job_log",
    lambda head: head.lstrip().startswith("[") and ('"attempts"' in head or '"jobid"' in head),
    read,
)
