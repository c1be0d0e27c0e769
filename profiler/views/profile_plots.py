"""A profile as a PNG: sizes of an iteration's messages, and the senders over time. Only this file needs matplotlib, an extra."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tiresias.errors import TiresiasError, UsageError
from tiresias.profiler.analysis import Profile
from tiresias.profiler.views import profile_report

BINS = 600
LINES = 8


def check(file: Path) -> None:
    """Raises UsageError if nothing could be drawn into it."""
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib; install it with: pip install 'slurm-tiresias[plot]'")
    if file.suffix != ".png" or file.is_dir() or not file.parent.is_dir():
        raise UsageError(f"{file}: name a .png file in a folder that is there")


def draw(profile: Profile, file: Path) -> None:
    """Raises UsageError for a profile without iterations: there is nothing to draw."""
    if profile.period is None:
        raise UsageError(f"{file}: nothing to draw, no iterations were seen")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), layout="constrained")
    sizes, time = figure.subplots(2, 1)
    found = profile_report.histogram(profile)
    sizes.bar([profile_report.amount(low) for low, _, _ in found], [total / 2**20 for _, _, total in found])
    sizes.set(xlabel="messages from this size on", ylabel="MiB an iteration", title=profile.verdict.decision)
    start, length = profile_report.window(profile)
    steps = start + np.linspace(0, length, BINS)
    for sender in profile_report.senders(profile)[:LINES]:
        time.plot(
            steps,
            profile_report.course(profile, sender, BINS) / 2**20,
            label=profile.traffic.nodes[sender],
            linewidth=1,
        )
    time.set(xlabel="seconds since the first message", ylabel=f"MiB in {length / BINS:.2g} s")
    time.legend(fontsize="small")
    try:
        figure.savefig(file, dpi=120, metadata={"Software": None})
    except OSError as error:
        raise TiresiasError(f"{file}: cannot be written: {error.strerror}; name another file") from error
