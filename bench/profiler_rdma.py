"""What the recorder costs a bandwidth test of RDMA; prints JSON.

    python3 bench/profiler_rdma.py [--rounds 6] [--messages 1000]

perftest's ib_write_bw between two processes of a guest with a soft-RoCE device (tests/profiler/rdma), both ends recorded
and both not, in turns. `plain` and `recorded` are medians in MiB/s as the client reports them, `ratio` is the median of the
rounds' (bar: 0.99). The guest's clock counts instructions, two ns each, so that nothing else on this machine is in it. Its
device is its kernel: a message takes some hundred times what it takes on hardware, so the ratio shows that the recorder
does no harm, not its exact cost; bench/profiler.py measures ns a post.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.profiler.rdma.guest import Guest, missing, run
from tiresias.profiler import build

SIZES = (4096, 65536)
SECONDS_A_RUN = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--messages", type=int, default=1000)
    args = parser.parse_args()
    if reason := missing():
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory(prefix="bench-rdma-") as folder:
        found = measure(Path(folder), args.rounds, args.messages)
    print(json.dumps({"cpus": os.cpu_count(), "load": os.getloadavg()[0], **found}, indent=2))


def measure(folder: Path, rounds: int, messages: int) -> dict[str, Any]:
    for library in build.libraries():
        if library:
            shutil.copy(library, folder)
    runs = [line for turn in range(rounds) for size in SIZES for line in both(turn, size, messages)]
    run([Guest(folder, "\n".join(runs))], timeout=60 + SECONDS_A_RUN * 2 * len(SIZES) * rounds)
    return {f"write_{size}": compare(folder, size, rounds) for size in SIZES}


def both(turn: int, size: int, messages: int) -> list[str]:
    """Measure both, in alternating order."""
    command = f"ib_write_bw -x 1 -F -s {size} -n {messages}"
    pair = [line(f"plain.{size}.{turn}", "", command), line(f"recorded.{size}.{turn}", "recorded bench ", command)]
    return pair[:: 1 if turn % 2 else -1]


def line(name: str, how: str, command: str) -> str:
    return (
        f"{how}{command} > /dev/null & server=$!; listening 18515; "
        f"{how}{command} 10.0.0.1 > /share/{name}; wait $server; rm -rf /tmp/bench /share/records"
    )


def compare(folder: Path, size: int, rounds: int) -> dict[str, float]:
    plain, recorded = (
        [bandwidth(folder / f"{how}.{size}.{turn}") for turn in range(rounds)] for how in ("plain", "recorded")
    )
    ratios = [with_it / without for with_it, without in zip(recorded, plain, strict=True)]
    return {
        "plain": statistics.median(plain),
        "recorded": statistics.median(recorded),
        "ratio": round(statistics.median(ratios), 4),
    }


def bandwidth(output: Path) -> float:
    """perftest's columns: bytes, iterations, peak, average, messages."""
    row = re.search(r"^ \d+ +\d+ +[\d.]+ +([\d.]+)", output.read_text(), re.MULTILINE)
    if not row:
        raise SystemExit(f"ib_write_bw printed no bandwidth: {output.read_text()}")
    return float(row[1])


if __name__ == "__main__":
    main()
