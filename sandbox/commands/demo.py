"""Two users compete on a private cluster: shows the live view and records it.

Alice fills 4 nodes x 4 GPUs with long jobs, bob submits short ones, and the controller preempts. On a terminal the view is
`tiresias status --watch` with all its keys: q or ctrl-C ends it. Without a terminal it is recorded at 120x40. The recording
is in asciinema's format (asciinema play FILE). The cluster is stopped at the end.

Examples:
  tiresias sandbox demo
  tiresias sandbox demo --record talk.cast --seconds 60 --time-scale 60
"""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tiresias.errors import TiresiasError, UsageError
from tiresias.sandbox.demo import terminal_recording
from tiresias.sandbox.demo.demo_workload import GPUS_PER_NODE, NODES, THRESHOLD, workload
from tiresias.sandbox.demo.terminal_recording import TerminalRecording
from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.session import available_suite
from tiresias.sandbox.replay.setup import Options
from tiresias.slurm_plugin.state.journal import KEPT_DECISIONS
from tiresias.slurm_plugin.state.journal_history import History

MAX_SECONDS, TIME_SCALE = 150.0, 30.0
INTERRUPTED = 130  # exit code after ctrl-C before the view has installed its handler
SIZE = (120, 40)  # columns and lines of a recording without a terminal


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", type=Path, default=Path("demo.cast"), metavar="FILE", help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=MAX_SECONDS, metavar="S", help="maximum duration (default: %(default)s)"
    )
    parser.add_argument(
        "--time-scale",
        type=float,
        default=TIME_SCALE,
        metavar="X",
        help="seconds of the workload per second (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    for name in ("seconds", "time_scale"):
        if not (math.isfinite(value := getattr(args, name)) and value > 0):
            raise UsageError(f"--{name.replace('_', '-')} is {value}: it must be above 0")
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for number in (signal.SIGTERM, signal.SIGHUP):  # as for ctrl-C, the cluster is stopped at exit
        signal.signal(number, lambda *_: sys.exit(143))
    suite = available_suite("", console)
    console.print(f"demo: starting Slurm with {NODES} nodes x {GPUS_PER_NODE} GPUs and the controller")
    options = Options(args.time_scale, NODES, GPUS_PER_NODE, suite, (THRESHOLD,))
    with _opened(args.record) as tape, Replay("las", workload(), options, purpose="demo") as replay:
        replay.begin(time.time())
        command = [sys.executable, "-m", "tiresias", "status", "--watch", "--socket", str(replay.control_socket)]
        if (code := terminal_recording.play(command, tape, _over(replay, args.seconds))) not in (0, INTERRUPTED):
            raise TiresiasError(f"the live view ended with exit code {code}: {args.record} contains its last output")
        console.print(f"demo: {_outcome(replay)}; recorded in {args.record}: asciinema play {args.record}")
    return 0


def _opened(file: Path) -> TerminalRecording:
    size = terminal_recording.terminal_size() if terminal_recording.has_terminal() else SIZE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return TerminalRecording(file, size, "Tiresias on Slurm: two users compete for 16 GPUs")
    except OSError as error:
        raise TiresiasError(f"{file}: cannot be written: {error.strerror}") from error


def _over(replay: Replay, seconds: float) -> Callable[[], bool]:
    """Return a function that polls the replay; the death of one of its processes is an error."""
    until = time.monotonic() + seconds
    return lambda: replay.over() or time.monotonic() > until


def _outcome(replay: Replay) -> str:
    counts = replay.last_progress
    replay.stop_controller()
    with contextlib.closing(History.of(replay.journal)) as history:
        made = [each.action for each in history.decisions(limit=KEPT_DECISIONS)]
    return f"{counts.submitted} jobs submitted, {counts.finished} finished, {made.count('preempt')} preemptions"
