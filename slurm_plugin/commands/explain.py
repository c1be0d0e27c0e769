"""Explain why a job waits, runs or was preempted: its rank, its runs, and the decisions on it.

JOBID is what squeue prints (%i): 123, 123_4 for an array task, 123_[1-3] for some tasks, 123+1 for a part of a
heterogeneous job. The id of an array stands for all its tasks. In a file or a pipe, lines are not wrapped.

examples:
  tiresias explain 123
  tiresias explain '123_[1-3]'         quoted, as shells interpret brackets
  tiresias explain 123_4 --json
"""

from __future__ import annotations

import argparse
import time
from typing import Any, cast

from tiresias.errors import TiresiasError
from tiresias.protocol.explanation import ArrayExplanation, Explanation
from tiresias.protocol.published_job import PublishedJob
from tiresias.slurm_plugin.commands.ended_job_memory import add_memory_use, memory_use
from tiresias.slurm_plugin.commands.terminal import (
    add_socket_option,
    console,
    job_or_tasks,
    print_json,
    socket_path,
    user_name,
)
from tiresias.slurm_plugin.sockets.control_client import ask
from tiresias.slurm_plugin.views.explain import fact, render_explanation
from tiresias.slurm_plugin.views.explain_array import render_array
from tiresias.slurm_plugin.views.remote_memory_text import memory_facts


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("job", metavar="JOBID", help="as squeue prints it, such as 123, 123_4 or 123_[1-3]")
    parser.add_argument("--json", action="store_true", help="the controller's answer as it is")
    add_socket_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    requested = job_or_tasks(args.job)
    try:
        answer = ask(socket_path(args), {"op": "explain", "job": requested})
    except TiresiasError:
        _print_memory(args)
        raise
    for found in answer.get("groups", [answer]):
        _name_owner(found["job"])
        add_memory_use(found["job"])
    if args.json:
        print_json(answer)
        return 0
    screen = console()
    width, now = screen.width, time.time()
    if "groups" in answer:
        screen.print(render_array(cast(ArrayExplanation, answer), width, now))
    else:
        screen.print(render_explanation(cast(Explanation, answer), width, now))
    return 0


def _print_memory(args: argparse.Namespace) -> None:
    """Print what the nodes of the user's own job have reported of its remote memory, where the controller does not know it."""
    if (use := memory_use(args.job)) and not args.json:
        screen = console()
        job = cast(PublishedJob, {"id": args.job, "remote_memory_use": use})
        for name, value in memory_facts(job, None):
            screen.print(*fact(name, value, screen.width))


def _name_owner(job: dict[str, Any]) -> None:
    """Add the user's name where the answer contains only the uid, of a job that slurmctld has removed."""
    if not job.get("user") and "uid" in job:
        job["user"] = user_name(job["uid"])
