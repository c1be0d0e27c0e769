"""Trials of the whole way: a real parameter server is recorded, its recordings are analyzed, the profile is held against
what the program did.

    python3 tests/profiler/trials.py --runs 100 --json trials.json

Each run draws model, workers, servers, computing time, evaluations, checkpoints, background traffic, order of the tensors
and a processor that others keep busy. Takes about five seconds a run on two cores.

What really was is the median of the program's own iterations. On a busy machine these vary by half of it, and then the
median of thirty is itself not known to 5 %: `truth_error` is half the width of its 90 % interval, as a share.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`
    os.execv(sys.executable, [sys.executable, "-m", "tests.profiler.trials", *sys.argv[1:]])

import argparse
import json
import random
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.profiler.tensors import tensors
from tiresias.profiler.analysis import Profile, analyze
from tiresias.profiler.build import libraries
from tiresias.profiler.recordings.recording import read
from tiresias.simulator.models import MODELS

SERVER = Path(__file__).with_name("ps.py")
BYTES = 2 << 20  # that models are scaled down to
CONSOLIDATED = {"vgg19", "vgg16", "vgg11", "alexnet"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="folder in which the recordings of bad runs stay")
    args = parser.parse_args()
    results = []
    for number in range(args.runs):
        setup = draw(random.Random(args.seed * 1000 + number), list(MODELS)[number % len(MODELS)])
        results.append(trial(setup, args.keep and args.keep / str(number)))
        print(number, json.dumps(results[-1]), flush=True)
    print(json.dumps(summary(results), indent=2))
    if args.json:
        args.json.write_text(json.dumps({"summary": summary(results), "runs": results}, indent=2))


def draw(random: random.Random, model: str) -> dict[str, Any]:
    return {
        "model": model,
        "workers": random.randint(2, 8),
        "servers": random.choice([1, 1, 2, 3, 4]),
        "iterations": random.randint(20, 40),
        "compute": round(0.02 * 8 ** random.random(), 3),
        "evaluate_every": random.choice([0, 0, 4, 10]),
        "checkpoint_every": random.choice([0, 0, 5, 12]),
        "background": random.random() < 0.4,
        "shuffle": random.random() < 0.3,
        "busy": random.random() < 0.3,
        "seed": random.randrange(10**6),
    }


def trial(setup: dict[str, Any], keep: Path | None = None) -> dict[str, Any]:
    """Runs the setup and compares. With `keep`, the recordings of a run that is wrong stay there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds = record(setup, folder)
        profile = analyze([read(file) for file in sorted(folder.glob("*.net"))])
        result = {**setup, **compare(setup, seconds, profile)}
        if keep and (result["period_error"] > 0.05 or not result["right_verdict"]):
            subprocess.run(["cp", "-r", "--sparse=always", name, keep], check=True)
            (keep / "setup.json").write_text(json.dumps(result))
        return result


def record(setup: dict[str, Any], folder: Path, timeout: float = 240) -> list[float]:
    """Leaves the recordings in `folder`; seconds of each iteration, as the median worker saw it."""
    command = [sys.executable, str(SERVER), "--truth", str(folder), "--scale", str(scale(setup["model"]))]
    for name, value in setup.items():
        if name != "busy" and value is not False:
            command += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    environment = {**os.environ, "TIRESIAS_PROFILE_DIR": str(folder), "LD_PRELOAD": str(libraries().net)}
    with busy(setup["busy"]):
        subprocess.run(command, env=environment, timeout=timeout, check=True)
    seen = [json.loads(file.read_text()) for file in folder.glob("[0-9]*.json")]
    return [statistics.median(each) for each in zip(*seen, strict=True)]


def scale(model: str) -> int:
    return max(sum(tensors(model)) // BYTES, 1)


@contextmanager
def busy(enabled: bool) -> Iterator[None]:
    """A process that computes all the time."""
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if enabled else None
    try:
        yield
    finally:
        if burner:
            burner.kill()
            burner.wait()


def compare(setup: dict[str, Any], seconds: list[float], profile: Profile) -> dict[str, Any]:
    true = [max(size // scale(setup["model"]) // 4, 1) * 4 for size in tensors(setup["model"])]
    truth = statistics.median(seconds)
    period = profile.period.seconds if profile.period else float("inf")
    expected = "consolidate" if setup["model"] in CONSOLIDATED else "spread"
    return {
        "seconds": truth, "truth_error": uncertainty(seconds), "period": period, "period_error": abs(period / truth - 1),
        "confidence": profile.period.confidence if profile.period else 0.0, "found_iterations": profile.iterations,
        "architecture": profile.shape.kind, "found_servers": len(profile.shape.servers), "found_workers": profile.shape.workers,
        "size_error": abs(profile.shape.model / sum(true) - 1),
        "skew_error": abs((profile.skew or 0.0) - max(true) / sum(true)),
        "decision": profile.verdict.decision, "right_verdict": profile.verdict.decision == expected,
    }  # fmt: skip


def uncertainty(seconds: list[float]) -> float:
    """Return half the 90 % interval of the median, by the order of the values, as a share of the median."""
    ordered, reach = sorted(seconds), 1.645 * len(seconds) ** 0.5 / 2
    low, high = (max(int(len(ordered) / 2 - reach), 0), min(int(len(ordered) / 2 + reach), len(ordered) - 1))
    return (ordered[high] - ordered[low]) / 2 / statistics.median(ordered)


def summary(results: list[dict[str, Any]]) -> dict[str, float]:
    def share(good: list[bool]) -> float:
        return sum(good) / max(len(good), 1)

    certain = [each for each in results if each["truth_error"] <= 0.05]
    return {
        "runs": len(results),
        "period_within_5_percent": share([each["period_error"] <= 0.05 for each in results]),
        "runs_of_known_period": len(certain),
        "of_these_within_5_percent": share([each["period_error"] <= 0.05 for each in certain]),
        "size_within_1_percent": share([each["size_error"] <= 0.01 for each in results]),
        "skew_within_2_points": share([each["skew_error"] <= 0.02 for each in results]),
        "right_verdict": share([each["right_verdict"] for each in results]),
        "right_processes": share(
            [each["found_servers"] == each["servers"] and each["found_workers"] == each["workers"] for each in results]
        ),
        "median_period_error": statistics.median(each["period_error"] for each in results),
        "least_confidence": min(each["confidence"] for each in results),
    }


if __name__ == "__main__":
    main()
