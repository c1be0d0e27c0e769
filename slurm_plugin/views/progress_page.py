"""`tiresias progress`: how far a job is, its losses with their fit, and what other sizes would bring."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from tiresias.protocol.published_progress import PublishedProgress, PublishedSize
from tiresias.slurm_plugin.views.braille_plot import BraillePlot
from tiresias.slurm_plugin.views.explain import fact
from tiresias.slurm_plugin.views.loss_fit import LossFit, loss_fit
from tiresias.slurm_plugin.views.predictions import end_text, last_change, sizes, step_seconds
from tiresias.slurm_plugin.views.table_layout import FAINT, HEADING, UNLIMITED, styled
from tiresias.slurm_plugin.views.text import duration, printable

_PIPE_WIDTH, _LOWEST, _HIGHEST = 100, 6, 20  # cells of the plot in a file or a pipe; lines of the plot
_MARGIN = 14  # cells beside the plot
_SIZES_SHOWN = 12
_POINTS, _FIT, _INTERVAL, _AIM = "cyan", "yellow", FAINT, "green"


def render_progress(found: PublishedProgress, width: int, height: int, now: float) -> RenderableType:
    """Return the facts and the plot in about `height` lines of `width` cells. now: epoch seconds."""
    job = found["job"]
    title = f"job {printable(job['id'], 20)} {printable(job.get('name', ''), 200)}".rstrip()
    facts = [line for name, value in _facts(found, now) for line in fact(name, value, width)]
    across = (_PIPE_WIDTH if width >= UNLIMITED else width) - _MARGIN
    lines = min(max(height - len(facts) - 8, _LOWEST), _HIGHEST)
    return Group(styled((title, HEADING)), *facts, Text(), *_plot(found, max(across, 20), lines))


def _facts(found: PublishedProgress, now: float) -> Iterator[tuple[str, str]]:
    job, runs = found["job"], found["runs"]
    step, total = job.get("progress"), job.get("total_steps")
    if step is not None:
        yield "step", f"{step:,.0f}" + ("" if total is None else f" of {total:,.0f}")
    timed = next((run.get("timed") for run in reversed(runs) if run.get("timed") is not None), None)
    if timed is not None:
        yield "a step takes", step_seconds(timed)
    if until := found["until"]:
        yield "ends", _criterion(until.get("loss"), until.get("threshold", 0.0), until.get("epochs", 1))
    if ends := end_text(job, now):
        yield "expected end", ends
    if change := last_change(runs):
        yield "size", change
    if found["sizes"]:
        yield "other sizes", _sizes(found)
    if found["losses"]:
        each = "" if found["reports_a_point"] == 1 else f", each the mean of {found['reports_a_point']} reports"
        yield "losses", f"{len(found['losses'])} points{each}; newest {found['losses'][-1]:.4g}"


def _criterion(loss: float | None, threshold: float, epochs: int) -> str:
    if loss is not None:
        return f"when its loss has fallen to {loss:.4g}"
    return f"when its loss falls by less than {100 * threshold:.3g}% of its maximum in each of {epochs} epochs"


def _sizes(found: PublishedProgress) -> str:
    """Return the predicted time left with some of the sizes."""
    every = found["sizes"]
    chosen = every[:: max(1, -(-len(every) // _SIZES_SHOWN))]
    left = ", ".join(f"{_size(one)}: {duration(one['seconds'])}" for one in chosen)
    doubt = "; few sizes are measured" if found["uncertain"] else ""
    with_servers = " + servers" if found["job"].get("server_counts") else ""
    return f"time left by GPUs{with_servers} ({sizes(found['job']) or 'elastic'}): {left}{doubt}"


def _size(one: PublishedSize) -> str:
    """Return the GPUs of a size, and its servers: 4 + 2."""
    return f"{one['gpus']} + {one['servers']}" if one.get("servers") else str(one["gpus"])


def _plot(found: PublishedProgress, width: int, height: int) -> list[Text]:
    if not found["losses"]:
        return [styled(("its program has reported no loss", FAINT))]
    shown = loss_fit(found, 2 * width)
    plot = BraillePlot(width, height, shown.right, *_range(shown))
    for steps, losses, style in _curves(shown, width):
        plot.add(steps, losses, style)
    legend = [("reported ", _POINTS), ("fit ", _FIT), ("interval ", _INTERVAL)] if len(shown.steps) else []
    aim = [("the training ends", _AIM)] if shown.aim is not None else []
    return [*plot.lines("step"), styled(("loss: ", ""), *(legend or [("reported ", _POINTS)]), *aim)]


def _curves(shown: LossFit, width: int) -> Iterator[tuple[np.ndarray, np.ndarray, str]]:
    if shown.aim is not None:
        across = np.linspace(0.0, shown.right, 2 * width)
        yield across, np.full(len(across), shown.aim), _AIM
    yield shown.steps, shown.low, _INTERVAL
    yield shown.steps, shown.high, _INTERVAL
    yield shown.points.steps, shown.points.losses, _POINTS
    yield shown.steps, shown.fit, _FIT


def _range(shown: LossFit) -> tuple[float, float]:
    """Return the range of losses to draw: the points, the fit, and the aim."""
    every = np.concatenate((shown.points.losses, shown.fit, [] if shown.aim is None else [shown.aim]))
    return float(every.min()), float(every.max())
