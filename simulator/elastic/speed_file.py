"""The speeds of models by size, from a CSV file, for the elastic jobs of a trace (`tiresias simulate --speeds`).

    model,gpus,nodes,steps_per_second[,servers,batch]

A row is a measured speed. `servers` of the GPUs are parameter servers, 0 or empty: the model has none. `batch` is what a GPU trains
in a step, with servers what all train; empty: the same for all rows of a model, divided among the GPUs. Other sizes have the speed
of the model that is fitted to the rows (`estimates/speed_model.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.estimates.speed_forms import ALL_REDUCE, SYNCHRONOUS
from tiresias.scheduler.estimates.speed_model import SpeedModel, fit
from tiresias.scheduler.model import Bools
from tiresias.simulator.elastic_job import ElasticJob, JobSize
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, Table, read_table
from tiresias.simulator.formats.trace_file import opened
from tiresias.simulator.trace import Trace

LAYOUT = Layout(
    numbers={
        "gpus": cells.gpus, "nodes": cells.gpus, "steps_per_second": cells.numbers, "servers": cells.numbers_or_nothing,
        "batch": cells.steps,
    },
    words={"model": cells.words},
    optional=frozenset(("servers", "batch")),
    closed=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredSpeed:
    """The speed of a model, as fitted to its measured sizes.

    Attributes:
        model: The speed model.
        has_servers: Whether the model trains with parameter servers.
        batch: What a step trains on all GPUs; 0: in proportion to the GPUs is `per_gpu`.
        per_gpu: What a step trains on each GPU.
    """

    model: SpeedModel
    has_servers: bool
    batch: float
    per_gpu: float
    _known: dict[JobSize, float] = field(default_factory=dict, repr=False)

    def __call__(self, size: JobSize) -> float:
        """Return steps a second."""
        kind = JobSize((size.gpus, size.nodes), size.servers)
        if kind not in self._known:
            self._known[kind] = self._computed(size)
        return self._known[kind]

    def _computed(self, size: JobSize) -> float:
        if not self.has_servers:
            return float(self.model.speed(size.nodes, size.gpus, self.per_gpu or self.batch / size.gpus))
        if not (size.servers and size.workers):
            return 0.0
        return float(self.model.speed(size.servers, size.workers, self.batch))


def read_speeds(file: Path) -> dict[str, MeasuredSpeed]:
    """Return the speeds of each model of a file.

    Raises:
        UsageError: The file cannot be read, or has no such table.
    """
    with opened(file, lambda rows: None) as source:
        table = read_table(source, LAYOUT)
    models = np.array(table.words["model"])
    return {model: _fitted(file, table, models == model, model) for model in dict.fromkeys(table.words["model"])}


def _fitted(file: Path, table: Table, rows: Bools, model: str) -> MeasuredSpeed:
    numbers = {name: values[rows] for name, values in table.numbers.items()}
    gpus, nodes, speed = numbers["gpus"], numbers["nodes"], numbers["steps_per_second"]
    servers = np.nan_to_num(numbers.get("servers", np.zeros(len(gpus))))
    batch = numbers.get("batch", np.full(len(gpus), np.nan))
    if (servers > 0).any() != (servers > 0).all():
        raise UsageError(f"{file}: model {model[:40]!r} has rows with and without servers; give each kind a name")
    if not ((speed > 0) & (servers < gpus) & (servers == np.floor(servers)) & (nodes <= gpus)).all():
        raise UsageError(
            f"{file}: model {model[:40]!r}: give speeds above 0, a worker at least, and no more nodes than GPUs"
        )
    if (servers > 0).all():
        total = np.where(np.isnan(batch), 1.0, batch)
        found = fit(np.stack([servers, gpus - servers, total, speed], axis=1), SYNCHRONOUS)
        return MeasuredSpeed(found, True, float(total[0]), 0.0)
    each = np.where(np.isnan(batch), 1.0 / gpus, batch)
    found = fit(np.stack([nodes, gpus, each, speed], axis=1), ALL_REDUCE)
    return MeasuredSpeed(found, False, 1.0, 0.0 if np.isnan(batch).any() else float(np.median(each)))


def with_speeds(trace: Trace, speeds: Mapping[str, MeasuredSpeed], file: Path) -> Trace:
    """Return the trace whose elastic jobs have the speeds of their models.

    Raises:
        UsageError: No job is elastic, the model of an elastic job has no speeds, or the job cannot have a server and a worker.
    """
    if not trace.elastic:
        raise UsageError(
            f"{file}: no job of the trace is elastic; give it min_gpus or max_gpus, or leave the speeds out"
        )
    found: list[ElasticJob | None] = []
    for name, model, job in zip(trace.job_id, trace.model, trace.elastic, strict=True):
        if job is None:
            found.append(None)
            continue
        if model not in speeds:
            raise UsageError(f"{file}: has no model {model[:40]!r} of job {name}; add its speeds")
        try:
            found.append(replace(job, speed=speeds[model], has_servers=speeds[model].has_servers))
        except UsageError as error:
            raise UsageError(f"job {name}: {error}") from None
    return replace(trace, elastic=tuple(found))
