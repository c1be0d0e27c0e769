"""Report runs, preemptions, GPU time and waits of users and jobs, and the cost of preemptions, from the controller's
journal.

Without --by there is a line for each user; with --user one for each job of that user; with JOBID the job's runs one by one.
GPU time counts inside --since and --until, and so do waits: Monday and Tuesday add up to both days. Waits of users are the
mean of their jobs: until the first run, and paused between runs, for any reason. Lost is the GPU time without progress
because of preemptions: saves, restarts and repeated steps, as far as jobs report them. The gain of preemptions is not
recorded; `tiresias whatif` replays the same jobs under another policy. You see what PrivateData in slurm.conf lets you see.

examples:
  tiresias history                              the last 7 days, by user
  tiresias history --user ada --sort lost
  tiresias history --since 2026-11-01 --until 2026-12-01 --json
  tiresias history 4711                         each run: when, where, its cost, and the job that it was preempted for
"""

from __future__ import annotations

import argparse
import pwd
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.slurm_plugin.commands.terminal import (
    add_socket_option,
    console,
    job_id,
    moment,
    print_json,
    socket_path,
    user_name,
)
from tiresias.slurm_plugin.sockets.control_client import ask
from tiresias.slurm_plugin.views.history import (
    SORTS,
    HistoryRow,
    by_user,
    ordered,
    render_jobs,
    render_runs,
    render_users,
    with_names,
)
from tiresias.slurm_plugin.views.text import printable

DEFAULT_DAYS = 7


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("job", metavar="JOBID", nargs="?", help="as squeue prints it, such as 123 or 123_4")
    parser.add_argument("--user", metavar="NAME", help="jobs of this user only; a name or a number")
    parser.add_argument(
        "--since", type=moment, metavar="DATE", help=f"such as 2026-11-01T08:00; default: {DEFAULT_DAYS} days ago"
    )
    parser.add_argument("--until", type=moment, metavar="DATE", help="default: now")
    parser.add_argument(
        "--by", choices=("user", "job"), help="one line for each user or job; default: user, with --user job"
    )
    parser.add_argument("--sort", choices=SORTS, default="served", help="in descending order (default: served)")
    parser.add_argument("--json", action="store_true", help="print JSON, in seconds and GPU-seconds")
    add_socket_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    now = time.time()
    if args.job is not None:
        return _show_job(args, now)
    since, until = args.since or now - DEFAULT_DAYS * 86400.0, args.until or now
    if since >= until:
        raise UsageError("--since must be before --until")
    asked = {"op": "history", "since": since, "until": until, "uid": args.user and _uid(args.user)}
    jobs = _named(_pages(socket_path(args), asked))
    unit = args.by or ("job" if args.user else "user")
    rows = ordered(by_user(jobs) if unit == "user" else jobs, args.sort)
    if args.json:
        print_json({"since": since, "until": until, f"{unit}s": rows})
    else:
        screen, render = console(), render_users if unit == "user" else render_jobs
        screen.print(render(rows, screen.width, now))
    return 0


def _show_job(args: argparse.Namespace, now: float) -> int:
    if args.user or args.since or args.until or args.by:
        raise UsageError("JOBID shows all runs of the job: leave out --user, --since, --until and --by")
    jobs = _named(ask(socket_path(args), {"op": "history", "job": job_id(args.job)})["jobs"])
    if args.json:
        print_json({"jobs": jobs})
    else:
        screen = console()
        screen.print(render_runs(jobs, screen.width, now))
    return 0


def _pages(path: Path, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all jobs, each once: a job that ends during the query is on two pages."""
    found = {(job["id"], job["submit"]): job for page in _answers(path, request) for job in page["jobs"]}
    return list(found.values())


def _answers(path: Path, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    page = ask(path, request)
    yield page
    while page["next"]:
        page = ask(path, {**request, "after": page["next"]})
        yield page


def _named(jobs: Iterable[Mapping[str, Any]]) -> list[HistoryRow]:
    """Add user names. The user database may hang and is therefore queried here, not in the controller."""
    jobs = list(jobs)
    return with_names(jobs, {uid: user_name(uid) for uid in {job["uid"] for job in jobs}})


def _uid(name: str) -> int:
    try:
        return int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        raise UsageError(f"{printable(repr(name), 40)} is not a user of this host; give a name or a number") from None
