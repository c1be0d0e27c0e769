"""Preempt programs without checkpoints at random moments, and compare what they write with an undisturbed run.

    python -m tests.wrappers.images.campaign --preemptions 20 --seed 1 [--program numpy ...] [--json FILE]

Each run is the batch script of tsbatch, as slurmd would start it; the signal and the requeue are sent by hand. DMTCP or CRIU
must be in PATH. Exit code 1: a result differs, or a program ended before all preemptions were made.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.wrappers.conftest import Job, Site
from tests.wrappers.images import programs
from tiresias.protocol import control
from tiresias.wrappers.images import option

LENGTHS = {
    "numpy": (2500, 0.02),
    "torch": (400, 0.06),
    "c": (6000, 0.02),
    "pipeline": (4000, 0.02),
    programs.CUDA: (1500, 0.02),
}  # steps, seconds of pause
LONGEST_SAVE_S = 300.0
LONGEST_WAIT_S = 0.5  # from a program's restart to its next preemption
STEP = re.compile(r"^\d+ \S+$", re.MULTILINE)  # that a program has printed
DUMPED = re.compile(r"image (\d+): ([0-9.]+) MiB, dumped in ([0-9.]+) s, committed after ([0-9.]+) s")


def main() -> int:
    """Run the campaign; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preemptions", type=int, default=20, help="of each program (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: %(default)s)")
    parser.add_argument("--program", action="append", choices=LENGTHS, help="may be given several times")
    parser.add_argument("--tool", choices=list(option.TOOLS), default=option.DMTCP, help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    args = parser.parse_args()
    results = []
    for name in args.program or programs.NAMES:
        results.append(one_program(name, args.preemptions, args.seed, args.tool))
        print(json.dumps(results[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    return 0 if all(one["identical"] and one["preemptions"] == args.preemptions for one in results) else 1


def one_program(name: str, preemptions: int, seed: int, tool: str) -> dict[str, object]:
    """Run one program with its preemptions; return what was measured."""
    with tempfile.TemporaryDirectory(prefix="tiresias-campaign-") as folder:
        site = Site(Path(folder))
        try:
            return _campaign(site, name, preemptions, seed, tool)
        finally:
            site.kill()


def _campaign(site: Site, name: str, preemptions: int, seed: int, tool: str) -> dict[str, object]:
    moments = random.Random(f"{seed} {name}")
    text = programs.script(name, site.folder, *LENGTHS[name])
    expected = programs.undisturbed(text, site.folder)
    restores, code = [], 99
    for run in range(preemptions + 1):
        job = site.start(text, restart=run, TIRESIAS_CHECKPOINT=tool)
        restores.append(_ready(job, prints=not run and name in programs.PRINTING))
        if run < preemptions and restores[-1] is not None:
            time.sleep(moments.uniform(0, LONGEST_WAIT_S))
            job.send(signal.SIGUSR2).until(_is_over, LONGEST_SAVE_S)
            job.send(signal.SIGTERM)
        code = job.process.wait(timeout=600)
        if code != control.EXIT_REQUEUE:
            break
    logs = "".join(job.log.read_text() for job in site.started)
    result = site.folder / "result"
    identical = code == 0 and result.exists() and result.read_bytes() == expected
    if not identical:
        print(logs[-3000:], file=sys.stderr)
    return {
        "program": name,
        "tool": tool,
        "seed": seed,
        "preemptions": len(site.started) - 1,
        "identical": identical,
        **_costs(logs, restores),
    }


def _is_over(report: control.JobReport) -> bool:
    return report.state in ("parked", "ended")


def _ready(job: Job, prints: bool) -> float | None:
    """Return the seconds until the program ran; None where it had ended. prints: also wait for its first step."""
    job.until(lambda report: report.ready or job.process.poll() is not None, LONGEST_SAVE_S)
    if prints:
        job.until(lambda _: STEP.search(job.log.read_text()) is not None, LONGEST_SAVE_S)
    return job.report().restore


def _costs(logs: str, restores: list[float | None]) -> dict[str, object]:
    found = [tuple(map(float, one)) for one in DUMPED.findall(logs)]
    columns = {"mib": 1, "dump_s": 2, "commit_s": 3}
    costs: dict[str, object] = {name: _spread([one[at] for one in found]) for name, at in columns.items()}
    return costs | {"restore_s": _spread([one for one in restores[1:] if one is not None])}


def _spread(values: list[float]) -> dict[str, float]:
    """Return median and largest."""
    return {"median": round(statistics.median(values), 2), "most": round(max(values), 2)} if values else {}


if __name__ == "__main__":
    sys.exit(main())
