"""What the recorder costs a training by DistributedDataParallel over gloo; prints JSON.

    TORCH_PYTHON=... python3 bench/profiler_ddp.py [--rounds 10] [--model vgg11] [--scale 16] [--iterations 60] [--compute 0.05]

Two unmodified ranks of tests/profiler/frameworks/ddp.py, recorded, beside two that are not; their computing is a sleep.
`plain` and `recorded` are medians of the rounds' mean iterations in ms, `ratio` is the median over the rounds of plain by
recorded (bar: 0.99), `quartiles` are its. TORCH_PYTHON: an interpreter that has PyTorch, where this one has none.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tiresias.profiler import build

PROGRAM = Path(__file__).resolve().parent.parent / "tests/profiler/frameworks/ddp.py"
RANKS = 2
WARM_UP = 5  # iterations: buckets are laid out anew after the first
SECONDS = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--model", default="vgg11")
    parser.add_argument("--scale", type=int, default=16, help="tensors are that much smaller")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument(
        "--compute", type=float, default=0.05, help="seconds an iteration; 0: all is network, the worst case"
    )
    args = parser.parse_args()
    pairs = [both(args) for _ in range(args.rounds)]
    ratios = [pair["plain"] / pair["recorded"] for pair in pairs]
    found = {how: round(statistics.median(pair[how] for pair in pairs) * 1e3, 3) for how in ("plain", "recorded")}
    quartiles = [round(each, 4) for each in statistics.quantiles(ratios, n=4)[::2]]
    about = {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "model": args.model, "rounds": args.rounds}
    print(
        json.dumps({**about, **found, "ratio": round(statistics.median(ratios), 4), "quartiles": quartiles}, indent=2)
    )


def both(args: argparse.Namespace) -> dict[str, float]:
    """At the same time, so that whatever else the machine does is in both."""
    with tempfile.TemporaryDirectory(prefix="bench-ddp-", dir="/dev/shm") as scratch, ExitStack() as stack:
        folders = {how: Path(scratch) / how for how in ("plain", "recorded")}
        started = {how: start(args, folder, how == "recorded", stack) for how, folder in folders.items()}
        if any(one.wait(SECONDS) for ranks in started.values() for one in ranks):
            sys.exit(f"{PROGRAM.name} failed")
        return {how: iteration(folder, RANKS if how == "recorded" else 0) for how, folder in folders.items()}


def start(args: argparse.Namespace, folder: Path, recorded: bool, stack: ExitStack) -> list[subprocess.Popen[Any]]:
    folder.mkdir()
    preload = {"LD_PRELOAD": str(build.libraries().net), "TIRESIAS_PROFILE_DIR": str(folder)} if recorded else {}
    return [stack.enter_context(rank(args, number, folder, preload)) for number in ports()]


def iteration(folder: Path, recordings: int) -> float:
    """The mean one of all ranks, in seconds."""
    if len(list(folder.glob("*.net"))) != recordings:
        sys.exit("not every rank was recorded, or one that should not be")
    return statistics.mean(
        second for file in folder.glob("[0-9].json") for second in json.loads(file.read_text())[WARM_UP:]
    )


def ports() -> list[tuple[int, int]]:
    """A rank and the port of the first of them, for each."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return [(each, port) for each in range(RANKS)]


def rank(
    args: argparse.Namespace, number: tuple[int, int], folder: Path, preload: dict[str, str]
) -> subprocess.Popen[Any]:
    python = os.environ.get("TORCH_PYTHON", sys.executable)
    options = {
        "model": args.model,
        "scale": args.scale,
        "rank": number[0],
        "workers": RANKS,
        "ports": number[1],
        "iterations": args.iterations,
        "compute": args.compute,
        "truth": folder,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    path = os.pathsep.join([str(PROGRAM.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])  # tensors.py
    return subprocess.Popen([python, str(PROGRAM), *words], env={**os.environ, **preload, "PYTHONPATH": path})


if __name__ == "__main__":
    main()
