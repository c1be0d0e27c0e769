"""The cost of protected frames: a page to a donor and from it, with and without them, in turns. Prints JSON.

    python bench/remote_memory_protection.py [--rounds 5] [--pages 2000]

Microseconds of a request of 4 KiB and of 128 KiB, by a region with one donor on this machine: medians of the rounds' medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.services.remote_memory.donors import DonorProcess, region_settings, until
from tiresias.services.remote_memory.client.remote_pages import RemotePages

PAGES = 256  # of the region: one slab
SIZES = {"4 KiB": 1, "128 KiB": 32}


def median_us(work: Callable[[int], object], count: int) -> float:
    """Return the median of the calls."""
    found = []
    for number in range(count):
        start = time.perf_counter()
        work(number)
        found.append(time.perf_counter() - start)
    return statistics.median(found) * 1e6


def measured(region: RemotePages, pages: int, count: int) -> dict[str, float]:
    """Return the medians of writes and reads."""
    content = os.urandom(pages * 4096)

    def place(number: int) -> int:
        return number * pages % PAGES

    return {
        "write": median_us(lambda number: region.write(place(number), content), count),
        "read": median_us(lambda number: region.read(place(number), pages), count),
    }


def one_round(donor: DonorProcess, folder: Path, count: int) -> dict[str, dict[str, float]]:
    """Return the medians of both sizes through one donor."""
    with RemotePages(region_settings(folder, [donor.address], pages=PAGES)) as region:

        def is_remote() -> bool:
            for page in range(0, PAGES, 32):
                region.write(page, bytes(32 * 4096))
            return bool(region.statistics()["remote_pages"] == PAGES)

        until(is_remote, "the donor has all pages")
        return {name: measured(region, pages, count) for name, pages in SIZES.items()}


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=2000, help="requests of each kind in a round")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        folder = Path(place)
        donors = {kind: DonorProcess(folder / kind, protect=kind) for kind in ("none", "mac")}
        try:
            rounds = [
                {kind: one_round(donors[kind], folder, args.pages) for kind in donors} for _ in range(args.rounds)
            ]
        finally:
            for donor in donors.values():
                donor.end()
    print(json.dumps({"load": os.getloadavg()[0], "us": _medians(rounds)}, indent=1))


def _medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        size: {
            way: {kind: round(statistics.median(each[kind][size][way] for each in rounds), 1) for kind in rounds[0]}
            for way in ("write", "read")
        }
        for size in SIZES
    }


if __name__ == "__main__":
    main()
