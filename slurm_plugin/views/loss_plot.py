"""The losses of a job with their fit and its interval as a PNG or SVG file. Only this file of the views needs matplotlib, an extra.

The same numbers give the same file.
"""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path

from tiresias.errors import TiresiasError, UsageError
from tiresias.protocol.published_progress import PublishedProgress
from tiresias.slurm_plugin.views.loss_fit import loss_fit
from tiresias.slurm_plugin.views.text import printable

SUFFIXES = (".svg", ".png")
STEPS = 400  # of the fitted curve


def check(file: Path) -> None:
    """Raise UsageError where nothing could be drawn into the file."""
    if file.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{file}: name a file that ends with {' or '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib; install it with: pip install 'slurm-tiresias[plot]'")


def write(file: Path, found: PublishedProgress) -> None:
    """Draw the losses of a job. Raises TiresiasError where the file cannot be written."""
    try:
        file.write_bytes(_drawn(found, file.suffix.lower()[1:]))
    except OSError as error:
        raise TiresiasError(f"{file}: cannot be written: {error.strerror}") from error


def _drawn(found: PublishedProgress, form: str) -> bytes:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    shown, job = loss_fit(found, STEPS), found["job"]
    with rc_context({"svg.hashsalt": "tiresias"}):
        figure = Figure(figsize=(8.0, 4.5), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(*shown.points, ".", markersize=4, label="reported")
        if len(shown.steps):
            axes.fill_between(shown.steps, shown.low, shown.high, alpha=0.2, color="C1", label="interval")
            axes.plot(shown.steps, shown.fit, color="C1", label="fit")
        if shown.aim is not None:
            axes.axhline(shown.aim, linestyle=":", color="C2", label="the training ends")
        axes.set_title(f"job {job['id']} {printable(job.get('name', ''), 60)}".replace("$", r"\$"))
        axes.set_xlabel("step")
        axes.set_ylabel("loss")
        axes.legend()
        buffer = io.BytesIO()
        figure.savefig(buffer, format=form, dpi=150, metadata={"Date": None} if form == "svg" else {"Software": None})
    return buffer.getvalue()
