"""Why a job waits, runs or was preempted: its place in the order, its runs, and what was decided about it.

JOBID is what squeue prints (%i): 123, 123_4 for an array task, 123+1 for a part of a heterogeneous job.

examples:
  tiresias explain 123
  tiresias explain 123_4 --json
"""

from __future__ import annotations

import argparse
import time
from typing import cast

from tiresias.slurm_plugin.commands.terminal import add_socket_option, console, job_id, print_json, socket_path
from tiresias.slurm_plugin.sockets.control_socket import ask
from tiresias.slurm_plugin.views.explain import render_explanation
from tiresias.slurm_plugin.views.published import Explanation


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOBID", help="as squeue prints it, such as 123 or 123_4")
    parser.add_argument("--json", action="store_true", help="the controller's answer as it is")
    add_socket_option(parser)


def run(args: argparse.Namespace) -> int:
    answer = cast(Explanation, ask(socket_path(args), {"op": "explain", "job": job_id(args.job)}))
    if args.json:
        print_json(answer)
    else:
        screen = console()
        screen.print(render_explanation(answer, screen.width, time.time()))
    return 0
