"""Test a script's checkpointing before it is needed: run it, preempt it, resume it, and report what is missing.

A program that cannot save is rehearsed again with tsbatch --checkpoint=dmtcp and =criu, where these tools work here.

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
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.protocol import environment
from tiresias.sandbox.rehearse import private_rehearsal
from tiresias.sandbox.rehearse.own_job import is_here
from tiresias.sandbox.rehearse.rehearsal import Rehearsal
from tiresias.sandbox.rehearse.requirements import RehearsalFinding, RehearsalOptions
from tiresias.wrappers.images import image_place, option

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
    if rehearsal.cannot_save and not _is_chosen(options):
        for tool in option.TOOLS:
            rehearsal.findings += _as_image(tool, [*options, str(args.script), *arguments], rehearsal_options)
    print(json.dumps(rehearsal.document(), indent=2) if args.json else _text(rehearsal))
    return 0 if fine else 1


def _is_chosen(options: Sequence[str]) -> bool:
    """Return whether the user has chosen how the program is saved."""
    return bool(os.environ.get(environment.CHECKPOINT)) or any(word.startswith(option.OPTION) for word in options)


def _as_image(tool: str, words: Sequence[str], options: RehearsalOptions) -> list[RehearsalFinding]:
    """Rehearse a program that cannot save as an image of its processes; return the findings."""
    chosen = f"{option.OPTION}={tool}"
    if reason := image_place.kind(tool).missing():
        _report(f"not rehearsed with {chosen}: {reason} here")
        return []
    _report(f"the program cannot save; the same again with {chosen}")
    rehearsal = Rehearsal([chosen, *words], options, _report)
    try:
        fine = rehearsal.run()
    except UsageError as error:
        return [RehearsalFinding(False, f"with tsbatch {chosen}: {error}")]
    if fine:
        return [RehearsalFinding(True, f"with tsbatch {chosen} this job can be preempted as it is")]
    return [
        RehearsalFinding(False, f"with tsbatch {chosen}: {one.what}", one.advice)
        for one in rehearsal.findings
        if not one.fine
    ]


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
