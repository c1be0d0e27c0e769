"""Traces on which `adaptive` is compared with its bars: the public ones, the paper's workload, and families of generated loads.

A family differs from the others in the sizes of its jobs, the distribution of their durations, how both are related, and how jobs
arrive. Each of them is generated at several loads, so that a method can be chosen on some families and tried on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.generators import paper_testbed, philly_like
from tiresias.simulator.pollux_replay.batch_progress import read_batch_progress
from tiresias.simulator.pollux_replay.elastic_replay import CLUSTER, Measurements
from tiresias.simulator.pollux_replay.measured_steps import read_measured_steps
from tiresias.simulator.pollux_replay.workloads import read_workloads
from tiresias.simulator.trace import Trace, read_trace

HOUR, DAY = 3600.0, 86_400.0
JOBS, GPUS = 2000, 128  # of each generated load
LOADS = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
NEW_SEEDS = tuple(range(101, 121))
FILES = {
    "philly": {"philly_full.csv.gz": (2000, 1900, 1800)},
    "helios": {"traces/helios_venus_may28_a.csv.gz": (416, 280), "traces/helios_venus_may28_b.csv.gz": (344, 280)},
    "crux": {"alibaba_crux2023.csv": (800, 900, 1000, 1100, 1200)},
    "openb": {"alibaba_openb2023_gpu.csv.gz": (35, 40, 45, 48)},
    "testbed480": {f"testbed480_seed{seed}.csv": (60,) for seed in (1, 2, 3)},
    "testbed480cal": {f"testbed480cal_seed{seed}.csv": (60,) for seed in (1, 2, 3)},
}
SHAPES = {"testbed480": (1.0, 1.0), "testbed480cal": (3.0, 0.75)}  # Pareto shapes of short and of long jobs

Sizes = Callable[[np.random.Generator], Ints]
Durations = Callable[[np.random.Generator, Ints], Floats]
Arrivals = Callable[[np.random.Generator, float], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One trace on one cluster.

    Attributes:
        family: The family that it belongs to.
        name: Its name in the family.
        gpus: GPUs of the cluster.
        load: Returns the trace.
    """

    family: str
    name: str
    gpus: int
    load: Callable[[], Trace]


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A family of generated loads: of its jobs the GPUs, the durations in seconds, and the submissions within a span in seconds."""

    sizes: Sizes
    durations: Durations
    arrivals: Arrivals

    def trace(self, load: float, seed: int) -> Trace:
        """Return a trace whose jobs request `load` times the GPU-seconds of the cluster between the submissions."""
        generator = np.random.default_rng(seed)
        sizes = self.sizes(generator)
        durations = np.ceil(np.clip(self.durations(generator, sizes), 10.0, 60 * DAY))
        submit = np.sort(np.floor(self.arrivals(generator, float(sizes @ durations) / (GPUS * load))))
        names = [str(row) for row in range(JOBS)]
        return Trace.from_columns(TraceColumns(names, submit, sizes.astype(np.float64), durations))


def _powers(most: int, shape: float) -> Sizes:
    """Powers of 2 up to `most`; each is `shape` times as frequent as the one before."""
    sizes = 2 ** np.arange(int(np.log2(most)) + 1)
    shares = shape ** np.arange(len(sizes))
    return lambda generator: np.asarray(generator.choice(sizes, JOBS, p=shares / shares.sum()))


def _lognormal(median: float, deviation: float) -> Durations:
    return lambda generator, sizes: median * np.exp(deviation * generator.standard_normal(len(sizes)))


def _pareto(shape: float, least: float) -> Durations:
    return lambda generator, sizes: least * (1.0 - generator.random(len(sizes))) ** (-1.0 / shape)


def _exponential(mean: float) -> Durations:
    return lambda generator, sizes: generator.exponential(mean, len(sizes))


def _two_kinds(generator: np.random.Generator, sizes: Ints) -> Floats:
    """Trials of about 5 minutes and trainings of about 10 hours, 4 to 1."""
    training = generator.random(len(sizes)) < 0.2
    return np.where(training, 10 * HOUR, HOUR / 12) * np.exp(0.3 * generator.standard_normal(len(sizes)))


def _longer_if_large(generator: np.random.Generator, sizes: Ints) -> Floats:
    return _lognormal(HOUR / 2, 1.5)(generator, sizes) * sizes**0.5


def _shorter_if_large(generator: np.random.Generator, sizes: Ints) -> Floats:
    return _lognormal(2 * HOUR, 1.5)(generator, sizes) / sizes**0.5


def _drifting(generator: np.random.Generator, sizes: Ints) -> Floats:
    """The later half of the jobs is ten times as long."""
    later = np.arange(len(sizes)) >= len(sizes) // 2
    return _lognormal(HOUR / 4, 1.5)(generator, sizes) * np.where(later, 10.0, 1.0)


def _weibull(shape: float, scale: float) -> Durations:
    return lambda generator, sizes: scale * generator.weibull(shape, len(sizes))


def _poisson(generator: np.random.Generator, span: float) -> Floats:
    return generator.uniform(0.0, span, JOBS)


def _batches(generator: np.random.Generator, span: float) -> Floats:
    """Sweeps of ten jobs that are submitted together."""
    return np.repeat(generator.uniform(0.0, span, JOBS // 10), 10)


def _by_day(generator: np.random.Generator, span: float) -> Floats:
    """Nine of ten jobs in ten hours of each day."""
    moments = generator.uniform(0.0, span, JOBS)
    day, hour = np.divmod(moments, DAY)
    busy = generator.random(JOBS) < 0.9
    return day * DAY + np.where(busy, hour * 10 / 24, hour)


GENERATED: Mapping[str, Family] = {
    "lognormal light": Family(_powers(16, 0.5), _lognormal(HOUR, 1.0), _poisson),
    "lognormal heavy": Family(_powers(16, 0.5), _lognormal(HOUR / 6, 2.5), _poisson),
    "pareto": Family(_powers(32, 0.5), _pareto(1.1, HOUR / 12), _poisson),
    "exponential": Family(_powers(16, 0.5), _exponential(2 * HOUR), _poisson),
    "weibull": Family(_powers(8, 0.7), _weibull(0.4, HOUR / 2), _by_day),
    "two kinds": Family(_powers(32, 0.6), _two_kinds, _poisson),
    "equal sizes": Family(_powers(1, 1.0), _lognormal(HOUR / 2, 2.0), _batches),
    "large jobs": Family(_powers(64, 1.0), _lognormal(HOUR / 2, 1.5), _poisson),
    "longer if large": Family(_powers(32, 0.6), _longer_if_large, _poisson),
    "shorter if large": Family(_powers(32, 0.6), _shorter_if_large, _by_day),
    "drift": Family(_powers(16, 0.5), _drifting, _poisson),
    "batches": Family(_powers(16, 0.5), _lognormal(HOUR / 2, 2.0), _batches),
}


def cases(folder: Path) -> Iterator[Case]:
    """Yield all cases. folder: with the public traces; those that it lacks are left out."""
    for family, files in FILES.items():
        for name, sizes in files.items():
            for gpus in sizes if (folder / name).exists() else ():
                yield Case(family, f"{name} on {gpus}", gpus, partial(read_trace, folder / name, gpus))
    for family, (short, long) in SHAPES.items():
        for seed in NEW_SEEDS:
            load = partial(paper_testbed, 480, seed, short_shape=short, long_shape=long)
            yield Case(family, f"seed {seed}", 60, load)
    yield from _pollux(folder / "optimus")
    for seed, load in enumerate(LOADS):
        yield Case("philly_like", f"load {load:g}", 256, partial(philly_like, 4000, 5 + seed, gpus=256, load=load))
    for family, generated in GENERATED.items():
        for seed, load in enumerate(LOADS):
            yield Case(family, f"load {load:g}", GPUS, partial(generated.trace, load, seed))


def _pollux(folder: Path) -> Iterator[Case]:
    """The workloads of Pollux' artifact as gang jobs of fixed sizes."""
    if not folder.exists():
        return
    measured = Measurements(
        read_measured_steps(folder / "adaptdl_aws_steps.csv.gz"),
        read_batch_progress(folder / "adaptdl_validation.csv.gz"),
    )
    for each in read_workloads(folder / "adaptdl_workloads_jct.csv.gz"):
        load = partial(measured.trace, each, elastic=False)
        yield Case("pollux", f"load {each.load:g}, workload {each.number}", CLUSTER.gpus, load)
