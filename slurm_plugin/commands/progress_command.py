"""Show how far a job is: the losses that its program reported, the curve that is fitted to them with its interval, the predicted
end, and the time left with other numbers of GPUs of an elastic job. For all users who may see the job.

JOBID is what squeue prints (%i): 123, or 123_4 for an array task. Losses are kept until a day after the job's end.

examples:
  tiresias progress 123
  tiresias progress 123 --plot loss.svg        the plot as a file, PNG or SVG; needs matplotlib
  tiresias progress 123 --json | jq '.sizes[] | {gpus, seconds}'
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import cast

from tiresias.protocol.published_progress import PublishedProgress
from tiresias.slurm_plugin.commands.terminal import (
    add_socket_option,
    console,
    height_of,
    job_id,
    print_json,
    socket_path,
)
from tiresias.slurm_plugin.sockets.control_client import ask


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("job", metavar="JOBID", help="as squeue prints it, such as 123 or 123_4")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="the controller's answer as it is")
    how.add_argument("--plot", type=Path, metavar="FILE", help="write the plot as a PNG or SVG file")
    add_socket_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from tiresias.slurm_plugin.views import loss_plot  # here: numpy and rich take a while to load

    name = job_id(args.job)
    if args.plot:
        loss_plot.check(args.plot)
    found = cast(PublishedProgress, ask(socket_path(args), {"op": "progress", "job": name}))
    if args.json:
        print_json(found)
    elif args.plot:
        loss_plot.write(args.plot, found)
    else:
        from tiresias.slurm_plugin.views.progress_page import render_progress

        screen = console()
        screen.print(render_progress(found, screen.width, height_of(screen), time.time()))
    return 0
