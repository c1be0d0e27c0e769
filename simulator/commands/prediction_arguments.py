"""The options of `tiresias simulate` on what is predicted of elastic jobs."""

from __future__ import annotations

import argparse

from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.elastic.run_measurements import RunMeasurements

_KINDS = ("true", "fitted")


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options."""
    group.add_argument(
        "--predictions", type=types.one_of("--predictions", _KINDS), default="true", metavar="KIND",
        help="true: sizes are chosen by the true speeds; fitted: by speed models that are fitted to what the runs of a job, and of "
        "its user's jobs with the same model, have shown so far (default: true)",
    )  # fmt: skip
    group.add_argument(
        "--step-noise", type=types.share("--step-noise"), default=RunMeasurements.step_noise, metavar="SHARE",
        help="fitted: standard deviation of the seconds a step that a run shows, as a part of them (default: 0.03)",
    )  # fmt: skip
    group.add_argument(
        "--size-samples", type=types.count("--size-samples"), default=0, metavar="N",
        help="fitted: a new elastic job runs at up to N different sizes first (default: 0; the preset optimus: 5)",
    )  # fmt: skip
    group.add_argument(
        "--sample-time", type=types.seconds("--sample-time"), default=60.0, metavar="SECONDS",
        help="each of these lasts so long (default: 60)",
    )  # fmt: skip


def measurements(args: argparse.Namespace) -> RunMeasurements | None:
    """Return what runs show; None: predictions are true."""
    return RunMeasurements(step_noise=args.step_noise) if args.predictions == "fitted" else None
