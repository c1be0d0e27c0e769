"""Acme: `trace_seren.csv` and `trace_kalos.csv` of InternLM/AcmeTrace (NSDI'24).

The column `duration` of Kalos is not read: it holds the end minus the submission. The kind of work (pretraining, evaluation,
debugging) becomes the model.
"""

from __future__ import annotations

from functools import partial

from tiresias.simulator.formats import start_and_end
from tiresias.simulator.formats.trace_format import TraceFormat, has_columns

FORMAT = TraceFormat(
    "Acme, trace_seren.csv or trace_kalos.csv",
    lambda head: has_columns(head, "job_id", "type", "gpu_num", "gpu_time"),
    partial(start_and_end.read, model="type"),
)
