"""What a progress report costs the training program, in nanoseconds a call.

    python bench/progress.py [--calls 1000000] [--folder .] > progress.json

suppressed: a call within a second of the last report. written: a call that writes the report. outside: a call outside of a job.
The loop itself is subtracted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tiresias.checkpoint import Checkpointer
from tiresias.protocol import control

WRITES = 200


def nanoseconds(call: Callable[[int], object], calls: int) -> float:
    """Return the time of one call, the best of five rounds."""
    best = min(_round(call, calls) for _ in range(5))
    return round((best - min(_round(abs, calls) for _ in range(5))) / calls, 1)


def _round(call: Callable[[int], object], calls: int) -> int:
    began = time.perf_counter_ns()
    for step in range(calls):
        call(step)
    return time.perf_counter_ns() - began


def written(checkpointer: Checkpointer, calls: int) -> float:
    """Return the time of a call that writes."""
    began = time.perf_counter_ns()
    for step in range(calls):
        checkpointer._progress.next_at = 0.0
        checkpointer.report(step, total_steps=calls, loss=0.5, samples=step)
    return round((time.perf_counter_ns() - began) / calls, 1)


def main() -> int:
    """Run the measurement and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path())
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-progress-", dir=args.folder) as root:
        folder = control.job_folder(Path(root), os.getuid(), "7")
        control.make(folder, "")
        inside, outside = Checkpointer(Path(root) / "saved", control=folder), Checkpointer(Path(root) / "saved")
        found = {"written": written(inside, WRITES)}
        inside._progress.next_at = float("inf")
        found["suppressed"] = nanoseconds(lambda step: inside.report(step, total_steps=args.calls), args.calls)
        found["outside"] = nanoseconds(lambda step: outside.report(step, total_steps=args.calls), args.calls)
    print(json.dumps({"unit": "ns a call", **found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
