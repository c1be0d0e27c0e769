"""`sacct --json` of a real site, of Slurm 21.08 and newer (data_parser's dump of slurmdbd jobs). Steps are not looked at.

    sacct --json --allusers --duplicates -s BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RV,S,TO -E now -S 2026-01-01

sacct_table.py has the reason for -s.
"""

from __future__ import annotations

from math import isnan

import numpy as np

from tiresias.simulator.formats.json_stream import Record, records
from tiresias.simulator.formats.sacct_runs import Runs, jobs
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat


def read(source: TraceFile) -> TraceColumns:
    """Read the jobs of a file of this format."""
    words: list[tuple[str, ...]] = []
    numbers: list[tuple[float, ...]] = []
    for job in records(source, "jobs"):
        read_words = (job.word(key) for key in ("user", "partition", "name", "account", "qos"))
        words.append((*_name(job), _state(job), *read_words))
        numbers.append((job.number("time/submission"), job.number("time/end"), job.number("time/elapsed"), _gpus(job)))
    submit, end, elapsed, gpus = np.array(numbers, np.float64).reshape(-1, 4).T
    name, component, *described = zip(*words, strict=True) if words else ((),) * 8
    return jobs(Runs(name, component, submit, end, elapsed, gpus, *described))


def _name(job: Record) -> tuple[str, str]:
    """(job, component)"""
    array, task = job.number("array/job_id"), job.number("array/task_id")
    if array > 0 and not isnan(task):
        return f"{array:.0f}_{task:.0f}", ""
    leader = job.number("het/job_id")
    if leader > 0:
        return f"{leader:.0f}", f"{job.number('het/job_offset'):.0f}"
    if isnan(job.number("job_id")):
        job.refuse("job_id", "is not a job id of Slurm")
    return f"{job.number('job_id'):.0f}", ""


def _state(job: Record) -> str:
    """A word; newer Slurms give a list, the state first and then its flags."""
    try:
        return job.word("state/current") if job.is_word("state/current") else str(job.items("state/current")[0])
    except IndexError:
        return ""


def _gpus(job: Record) -> float:
    counts = [_count(job, f"tres/{which}") for which in ("allocated", "requested")]
    return counts[0] or counts[1]


def _count(job: Record, path: str) -> float:
    """The sum stands beside its kinds (gpu, gpu:a100); where it does not, they are summed."""
    gpus = [tres for tres in job.records(path) if tres.word("type") == "gres"]
    total = [tres.number("count") for tres in gpus if tres.word("name") == "gpu"]
    return total[0] if total else sum(tres.number("count") for tres in gpus if tres.word("name").startswith("gpu:"))


FORMAT = TraceFormat("sacct --json", lambda head: head.lstrip().startswith("{"), read)
