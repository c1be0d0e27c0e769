"""Errors of the models of interference and of completed pairs. Prints JSON.

    python bench/interference.py [--data ../shared/data/interference] [--seeds 4]

`forms`: relative errors of left-out slowdowns, samples with planted coefficients and 5% of noise. `pairs`: mean relative errors of
the pairs that are not known, from 10, 30 and 50% of the pairs of Gavel (P100) and DeepShare, the part that is within the range, and
the seconds of a completion; left out where the data are missing.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.scheduler.estimates.planted_interference import contention, planted
from tests.scheduler.estimates.published_pairs import held_out_error, published
from tiresias.scheduler.estimates.interference import FORMS, held_out_errors

SAMPLES, NOISE = 480, 0.05
FILES = {"gavel": "gavel_throughputs.csv.gz", "deepshare": "deepshare_pair_ratio.csv.gz"}


def forms(seeds: int) -> dict[str, float]:
    """Return the mean error of each form."""
    errors: dict[str, list[float]] = {form.name: [] for form in FORMS}
    for seed in range(seeds):
        found = contention(SAMPLES, seed)
        slowdown = planted(found, NOISE, seed)
        for form in FORMS:
            errors[form.name].append(float(held_out_errors(form, found, slowdown).mean()))
    return {name: round(float(np.mean(each)), 4) for name, each in errors.items()}


def pairs(file: Path, seeds: int) -> dict[str, dict[str, float]]:
    """Return the errors from each part of the pairs."""
    names, ratio = published(file)
    found = {}
    for part in (0.1, 0.3, 0.5):
        began = time.perf_counter()
        error, within = np.mean([held_out_error(names, ratio, part, seed) for seed in range(seeds)], axis=0)
        seconds = (time.perf_counter() - began) / seeds
        found[f"{part:.0%}"] = {"error": round(error, 4), "within": round(within, 3), "seconds": round(seconds, 2)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data/interference")
    parser.add_argument("--seeds", type=int, default=4)
    args = parser.parse_args()
    files = {name: args.data / file for name, file in FILES.items()}
    result: dict[str, Any] = {"seeds": args.seeds, "forms": forms(args.seeds)}
    result["pairs"] = {name: pairs(file, args.seeds) for name, file in files.items() if file.exists()}
    print(json.dumps({**result, "python": platform.python_version(), "machine": platform.machine()}, indent=1))


if __name__ == "__main__":
    main()
