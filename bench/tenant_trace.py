"""A trace and a file of virtual clusters for `tiresias sandbox replay`, drawn from the virtual clusters of a trace (Philly).

    python bench/tenant_trace.py TRACE --out jobs.csv --tables vcs.toml [--days 12] [--load 0.9]

The tenants, what they own of 12 nodes of 8 GPUs, and their jobs are those of bench/tenants.py at that load, drawn from the jobs of
at least `--shortest` seconds: a start takes a second of the machine, which is ten minutes of the trace there. Longer durations than
`--longest` become that, so that a replay ends soon after the last submission; its option --compress restores the load.
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from tenants import SINGLE, Workload, workload

from tiresias.simulator.trace import Trace, read_trace

COLUMNS = ("job_id", "submit_time", "num_gpus", "duration", "user", "vc")


def thinned(trace: Trace, shortest: float, longest: float, one_gpu: float, seed: int) -> Trace:
    """Return the jobs of at least `shortest` seconds, of which none then takes longer than `longest`; of those with one GPU, which
    are nearly all, this share."""
    kept = np.random.default_rng(seed).random(len(trace)) < np.where(trace.gpus > 1, 1.0, one_gpu)
    return Trace.of(
        replace(job, duration=min(job.duration, longest))
        for job, keep in zip(trace.jobs(), kept.tolist(), strict=True)
        if keep and job.duration >= shortest
    )


def write_jobs(work: Workload, file: Path) -> None:
    """Write the jobs."""
    trace = work.trace
    with file.open("w", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(COLUMNS)
        for job, submit, gpus, duration, vc in zip(
            trace.job_id, trace.submit, trace.gpus, trace.duration, trace.vc, strict=True
        ):
            rows.writerow([job, round(float(submit), 1), int(gpus), float(duration), "", vc])


def tables(work: Workload, levels: str = SINGLE) -> str:
    """Return what each tenant owns, as `[[virtual_cluster]]` tables."""
    return "\n".join(
        f"[[virtual_cluster]]\nname = {json.dumps(each.name)}\n"
        f"cells = [{', '.join(f'{{ level = {json.dumps(cell.level)}, count = {cell.count} }}' for cell in each.cells)}]\n"
        for each in work.declared(levels)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, metavar="TRACE", help="Philly's trace, with the column vc")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--tables", type=Path, required=True, metavar="FILE.toml")
    parser.add_argument("--days", type=float, default=12.0, help="of arrivals (default: %(default)s)")
    parser.add_argument("--load", type=float, default=0.9, help="of each tenant (default: %(default)s)")
    parser.add_argument("--shortest", type=float, default=3600.0, metavar="S", help="seconds (default: %(default)s)")
    parser.add_argument("--longest", type=float, default=28800.0, metavar="S", help="seconds (default: %(default)s)")
    parser.add_argument(
        "--one-gpu", type=float, default=0.1, metavar="SHARE", help="of their jobs (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: %(default)s)")
    args = parser.parse_args()
    trace = thinned(read_trace(args.trace), args.shortest, args.longest, args.one_gpu, args.seed)
    work = workload(trace, args.load, args.days, args.seed)
    write_jobs(work, args.out)
    args.tables.write_text(tables(work))
    loads = ", ".join(f"{name} {load:.2f}" for name, load in work.load(args.days).items())
    print(f"{len(work.trace)} jobs, {work.left_out} larger ones left out; loads: {loads}")


if __name__ == "__main__":
    main()
