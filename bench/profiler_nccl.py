"""What the NCCL plugin and the recorder cost a training by DistributedDataParallel over NCCL; needs a GPU; prints JSON.

    python3 bench/profiler_nccl.py [--rounds 5] [--steps 200]

Two ranks of tests/profiler/native/programs/nccl_training.py, on one GPU where there is no second. In each round they run without
and with the recorder, in an order that changes. `plain` and `recorded` are medians over the rounds of the median step of rank 0 in
ms, `ratio` is the median over the rounds of plain by recorded (bar: 0.99).
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.checkpoint.adapters.shared_gpu import variables
from tiresias.profiler import build

PROGRAM = Path(__file__).resolve().parent.parent / "tests/profiler/native/programs/nccl_training.py"
RANKS = 2
SECONDS = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    pairs = [both(args.steps, round_number) for round_number in range(args.rounds)]
    found = {how: round(statistics.median(pair[how] for pair in pairs), 3) for how in ("plain", "recorded")}
    ratio = statistics.median(pair["plain"] / pair["recorded"] for pair in pairs)
    about = {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "rounds": args.rounds, "steps": args.steps}
    print(json.dumps({**about, **found, "ratio": round(ratio, 4)}, indent=2))


def both(steps: int, round_number: int) -> dict[str, float]:
    """Return the median step of each in ms."""
    order = ("plain", "recorded") if round_number % 2 else ("recorded", "plain")
    return {how: step(steps, how == "recorded") for how in order}


def step(steps: int, recorded: bool) -> float:
    with tempfile.TemporaryDirectory(prefix="bench-nccl-", dir="/dev/shm") as folder:
        found = build.libraries()
        recording = {
            "LD_PRELOAD": str(found.net),
            "NCCL_PROFILER_PLUGIN": str(found.nccl),
            "TIRESIAS_PROFILE_DIR": folder,
        }
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        ranks = [start(rank, port, steps, recording if recorded else {}) for rank in range(RANKS)]
        printed = [rank.communicate(timeout=SECONDS)[0] for rank in ranks]
        if any(rank.returncode for rank in ranks) or len(list(Path(folder).glob("*.net"))) != RANKS * recorded:
            sys.exit(f"{PROGRAM.name} failed, or recordings are missing")
    return 1e3 * float(printed[0].split()[1])


def start(rank: int, port: str, steps: int, recording: dict[str, str]) -> subprocess.Popen[str]:
    launch = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS), "RANK": str(rank)}
    env = os.environ | launch | variables(str(rank)) | recording
    return subprocess.Popen([sys.executable, str(PROGRAM), str(steps)], stdout=subprocess.PIPE, text=True, env=env)


if __name__ == "__main__":
    main()
