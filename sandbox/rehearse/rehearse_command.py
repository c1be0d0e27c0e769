"""Test a script's checkpointing before it is needed: run it, preempt it, resume it, and report what is missing.

The test needs no controller and only the rights of the job's owner. Where no Slurm answers, a private cluster of two nodes
is started, with a copy of the script's folder; only the modules of Debian's python3 can be imported there. The job is
cancelled at the end. Exit code 0: nothing is missing.

examples:
  tiresias rehearse train.sh
  tiresias rehearse --after 60 --deadline 300 train.sh --gpus=8 --time=30
  tiresias rehearse train.sh --gpus=8 -- --epochs 3      arguments after -- are the script's
  tiresias rehearse --compare weights.bin train.sh       a second, undisturbed run must write the same file
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.sandbox.rehearse import private_rehearsal
from tiresias.sandbox.rehearse.own_job import is_here
from tiresias.sandbox.rehearse.rehearsal import Rehearsal
from tiresias.sandbox.rehearse.requirements import RehearsalOptions

_SECONDS = {
    "after": "seconds of training before the preemption",
    "deadline": "seconds for the save, as in the controller's preemption.deadline",
    "startup": "seconds from a start to the first step",
    "queue": "seconds to wait for nodes",
}


def configure(parser: argparse.ArgumentParser) -> None:
    default = RehearsalOptions()
    for name, text in _SECONDS.items():
        parser.add_argument(
            f"--{name}",
            type=_seconds,
            default=getattr(default, name),
            metavar="SECONDS",
            help=f"{text} (default: %(default)g)",
        )
    parser.add_argument("--compare", action="append", default=[], metavar="FILE", help="may be given several times")
    parser.add_argument("--sandbox", action="store_true", help="use a private cluster even where a Slurm answers")
    parser.add_argument("--json", action="store_true", help="print the findings and measured times as JSON")
    parser.add_argument("script", type=Path, metavar="SCRIPT")
    parser.add_argument(
        "options", nargs=argparse.REMAINDER, metavar="...", help="sbatch's options, then -- and the script's arguments"
    )


def run(args: argparse.Namespace) -> int:
    if not args.script.is_file():
        raise UsageError(f"{args.script}: no such script")
    if args.sandbox or not is_here():
        return private_rehearsal.rehearse(args.script, _again(args), args.options, _report)
    rehearsal_options = RehearsalOptions(args.after, args.deadline, args.startup, args.queue, tuple(args.compare))
    options, arguments = split(args.options)
    rehearsal = Rehearsal([*options, str(args.script), *arguments], rehearsal_options, _report)
    fine = rehearsal.run()
    print(json.dumps(rehearsal.document(), indent=2) if args.json else _text(rehearsal))
    return 0 if fine else 1


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return sbatch's options, and the arguments after the first `--`."""
    at = words.index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])


def _seconds(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text}: seconds, more than 0")
    return value


def _again(args: argparse.Namespace) -> list[str]:
    """Return the options of this command for the same command inside the private cluster."""
    numbers = [word for name in _SECONDS for word in (f"--{name}", str(getattr(args, name)))]
    compare = [word for name in args.compare for word in ("--compare", name)]
    return [*numbers, *compare, *(["--json"] if args.json else [])]


NOT_YET = (
    "This job cannot be preempted safely yet. Beyond the cells of a virtual cluster it runs with tsbatch "
    "--opportunistic=restart only, and loses its run there when the GPUs are needed."
)


def _report(line: str) -> None:
    print(f"rehearse: {line}", file=sys.stderr, flush=True)


def _text(rehearsal: Rehearsal) -> str:
    lines = []
    for one in rehearsal.findings:
        lines.append(f"{'fine   ' if one.fine else 'MISSING'}  {one.what}")
        lines += [f"         {line}" for line in one.advice.splitlines()]
    fine = all(one.fine for one in rehearsal.findings)
    return "\n".join([*lines, "This job can be preempted." if fine else NOT_YET])
