"""Figures of a simulation or a training as PNG and SVG files. Only this file needs matplotlib, an extra of the package.

The same numbers give the same files.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.outcome_metrics import Summary, cumulative, over_time
from tiresias.simulator.views import output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = tuple[list[int], list[float]]  # x and y
BINS = 200  # of a timeline over time
POINTS = 2000  # of a distribution
DAY, HOUR = 86400.0, 3600.0


def check(folder: Path) -> None:
    """Raises UsageError if nothing could be drawn into it; makes it if it is not there."""
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib; install it with: pip install 'slurm-tiresias[plot]'")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made a folder for plots: {error.strerror}; name another one") from error
    output.check([folder / "plot"])


def comparison(folder: Path, setup: Setup, outcomes: Mapping[str, Outcome]) -> dict[Path, bytes]:
    """JCT distribution (Figure 13), GPU utilization (Figure 11), jobs that wait."""
    figures = {
        "jct": _jct(setup, outcomes),
        "utilization": _utilization(setup, outcomes),
        "waiting": _waiting(setup, outcomes),
    }
    return dict(_files(folder, figures))


def sensitivity(folder: Path, knob: str, policies: Mapping[str, Mapping[str, Summary]]) -> dict[Path, bytes]:
    """Figures 14 and 15: one part a policy, one group of bars a number, one bar a setting."""
    figure, parts = _figure(f"Sensitivity to {knob}", len(policies))
    for axes, (name, settings) in zip(parts, policies.items(), strict=True):
        _bars(axes, settings)
        axes.set_title(name)
    parts[0].set_ylabel("JCT, seconds")
    parts[-1].legend(title=knob, fontsize="small")
    return dict(_files(folder, {f"sensitivity-{knob}": figure}))


def learning(folder: Path, parts: Mapping[str, Mapping[str, Curve]]) -> dict[Path, bytes]:
    """Learning curves over episodes: one part for each axis, one line for each name."""
    figure, axes = _figure("Training", len(parts), sharey=False)
    for each, (label, curves) in zip(axes, parts.items(), strict=True):
        for name, (episodes, values) in curves.items():
            each.plot(episodes, values, label=name, linewidth=1)
        each.set_xlabel("episode")
        each.set_ylabel(label)
        each.legend(fontsize="small")
    return dict(_files(folder, {"learning": figure}))


def _bars(axes: Axes, settings: Mapping[str, Summary]) -> None:
    numbers = {"mean_jct": "mean", "median_jct": "median", "p95_jct": "95th", "max_jct": "longest"}
    width = 0.8 / len(settings)
    for place, (label, summary) in enumerate(settings.items()):
        left = np.arange(len(numbers)) - 0.4 + (place + 0.5) * width
        axes.bar(left, [summary[key] for key in numbers], width, label=label)
    axes.set_xticks(np.arange(len(numbers)), list(numbers.values()))
    axes.set_yscale("log")


def _jct(setup: Setup, outcomes: Mapping[str, Outcome]) -> Figure:
    figure, (axes,) = _figure(f"Job completion times, {setup.name}")
    for name, outcome in outcomes.items():
        axes.plot(*cumulative(np.maximum(outcome.jct, 1.0), POINTS), label=name)
    axes.set_xscale("log")
    axes.set_xlabel("JCT, seconds")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0.0, 1.0)
    axes.legend()
    return figure


def _utilization(setup: Setup, outcomes: Mapping[str, Outcome]) -> Figure:
    figure, (axes,) = _figure(f"GPU utilization, {setup.name}")
    for name, outcome in outcomes.items():
        _timeline(axes, name, outcome, outcome.timeline.used / setup.cluster.gpus)
    axes.set_ylabel("share of GPUs in use")
    axes.set_ylim(0.0, 1.05)
    axes.legend()
    return figure


def _waiting(setup: Setup, outcomes: Mapping[str, Outcome]) -> Figure:
    figure, (axes,) = _figure(f"Waiting jobs, {setup.name}")
    for name, outcome in outcomes.items():
        _timeline(axes, name, outcome, outcome.timeline.waiting)
    axes.set_ylabel("jobs")
    axes.set_ylim(bottom=0.0)
    axes.legend()
    return figure


def _timeline(axes: Axes, name: str, outcome: Outcome, values: Floats | Ints) -> None:
    time = outcome.timeline.time
    span = max(float(time[-1] - time[0]), 1.0)
    unit, word = (DAY, "days") if span > 3 * DAY else (HOUR, "hours")
    edges = np.linspace(time[0], time[0] + span, BINS + 1)
    axes.plot((edges[:-1] - time[0]) / unit, over_time(outcome.timeline, values, edges), label=name, linewidth=1)
    axes.set_xlabel(f"{word} since the first job came")


def _figure(title: str, parts: int = 1, sharey: bool = True) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(1, parts, squeeze=False, sharey=sharey)
    for each in axes[0]:
        each.grid(alpha=0.3)
    return figure, list(axes[0])


def _files(folder: Path, figures: Mapping[str, Figure]) -> Iterator[tuple[Path, bytes]]:
    import matplotlib

    for name, figure in figures.items():
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            image = io.BytesIO()
            with matplotlib.rc_context({"svg.hashsalt": name}):
                figure.savefig(image, format=suffix, dpi=120, metadata=metadata)
            yield folder / f"{name}.{suffix}", image.getvalue()
