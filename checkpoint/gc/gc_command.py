"""`tiresias checkpoint gc ROOT`: what ended jobs have left, removed by the site's rule."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tiresias.checkpoint.gc.collection import Collected, active_jobs, bytes_by_user, collect
from tiresias.checkpoint.gc.rule import Retained
from tiresias.checkpoint.size_text import size_text
from tiresias.errors import UsageError, one_line

DAYS, LEAST_DAYS = 30, 1
_GIB = 1 << 30


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this action alone."""
    parser.add_argument(
        "--days",
        type=int,
        default=DAYS,
        help=f"gc: days that an ended job's checkpoints stay after their last change, at least {LEAST_DAYS} (default: {DAYS})",
    )
    parser.add_argument("--quota", type=float, metavar="GIB", help="gc: name the users who have left more than this")


def run(root: Path, days: int, keep: int | None, quota: float | None, dry_run: bool, as_json: bool) -> int:
    """Collect; return the exit code: 1 where a folder could not be read or emptied.

    Raises:
        UsageError: An option has no meaning.
        Unavailable: The root or Slurm's list of jobs cannot be read; nothing was removed.
    """
    if days < LEAST_DAYS or (keep is not None and keep < 1) or (quota is not None and not 0 <= quota < 1e9):
        raise UsageError("--days and --keep are numbers from 1 up, --quota one from 0 up")
    found = collect(root, active_jobs(), Retained(days, keep), time.time(), dry_run)
    above = {user: size for user, size in bytes_by_user(found).items() if quota is not None and size > quota * _GIB}
    if as_json:
        print(json.dumps(_document(root, found, above, dry_run)))
    else:
        _print(root, found, above, dry_run)
    return 1 if any(job.failed for job in found) else 0


def _document(root: Path, found: list[Collected], above: dict[str, int], dry_run: bool) -> dict[str, Any]:
    return {
        "root": str(root),
        "dry_run": dry_run,
        "removed": [f"{job.name}/{entry}" for job in found for entry in job.removed],
        "bytes": sum(job.removed_size for job in found),
        "left": {job.name: job.why for job in found if job.why},
        "users": bytes_by_user(found),
        "above_quota": sorted(above),
    }


def _print(root: Path, found: list[Collected], above: dict[str, int], dry_run: bool) -> None:
    verb = "would be removed" if dry_run else "removed"
    for job in found:
        if job.removed:
            print(f"{verb}: {job.name} of {job.user}: {len(job.removed)} entries, {size_text(job.removed_size)}")
    ended = sum(job.ended for job in found)
    total = size_text(sum(job.removed_size for job in found))
    if os.geteuid():
        print("only your own checkpoints: those of other users need root")
    print(f"{root}: {len(found)} jobs, {ended} have ended; {verb}: {total}")
    for job in found:
        if job.why:
            print(one_line(f"left: {job.name} of {job.user}: {job.why}"), file=sys.stderr)
    for user, size in above.items():
        print(f"above the quota: {user} has {size_text(size)} of checkpoints", file=sys.stderr)
