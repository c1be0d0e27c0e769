"""Generate a workload and write it as a trace: `testbed` is the paper's, 480 jobs or any number in the same proportions;
`philly-like` has the sizes, durations and arrivals of Microsoft's Philly, for a cluster of any size and as busy as you like;
`placement` has the jobs in which placements are learned: all models and sizes equally often, also with the arrivals of a trace.

examples:
  tiresias workload testbed --out testbed.csv
  tiresias workload testbed --jobs 120 --seed 7 --short-shape 3 --long-shape 0.75 --out short.csv
  tiresias workload philly-like --jobs 100000 --gpus 2000 --load 0.9 --out busy.csv.gz
  tiresias workload placement --jobs 500 --gpus 256 --arrivals uniform --out uniform.csv
  tiresias workload placement --gpus 256 --arrivals may.csv --out as_in_may.csv
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from math import inf
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.simulator.formats.own import OPTIONAL, REQUIRED
from tiresias.simulator.generators import INTERARRIVAL, paper_testbed, philly_like
from tiresias.simulator.placement_workloads import ARRIVALS, POISSON, PlacementWorkload
from tiresias.simulator.trace import Trace, read_trace
from tiresias.simulator.views import output

MOST_JOBS = 20_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    kinds = parser.add_subparsers(dest="kind", metavar="testbed|philly-like|placement", required=True)
    _configure_testbed(kinds.add_parser("testbed", help="section 5.1 of the paper"))
    _configure_philly(kinds.add_parser("philly-like", help="any size, seeded"))
    _configure_placement(kinds.add_parser("placement", help="jobs in which placements are learned"))


def _configure_testbed(parser: argparse.ArgumentParser) -> None:
    _configure_all(parser, jobs=480)
    parser.add_argument(
        "--interarrival",
        type=float,
        default=INTERARRIVAL,
        metavar="SECONDS",
        help="mean, of a Poisson process (default: %(default)s)",
    )
    parser.add_argument(
        "--short-shape", type=float, default=1.0, metavar="A", help="Pareto shape below 800 s (default: %(default)s)"
    )
    parser.add_argument(
        "--long-shape", type=float, default=1.0, metavar="A", help="Pareto shape above (default: %(default)s)"
    )


def _configure_philly(parser: argparse.ArgumentParser) -> None:
    _configure_all(parser, jobs=100_000)
    _configure_load(parser, gpus=2000, load=0.9)


def _configure_load(parser: argparse.ArgumentParser, gpus: int, load: float) -> None:
    parser.add_argument("--gpus", type=int, default=gpus, metavar="G", help="of the cluster (default: %(default)s)")
    parser.add_argument(
        "--load", type=float, default=load, metavar="X", help="share of the GPUs asked for (default: %(default)s)"
    )


def _configure_placement(parser: argparse.ArgumentParser) -> None:
    default = PlacementWorkload()
    _configure_all(parser, jobs=default.jobs)
    _configure_load(parser, gpus=64, load=default.load)
    parser.add_argument(
        "--most-gpus", type=int, default=default.most_gpus, metavar="G",
        help="jobs request 1 to so many, all equally often (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--arrivals", default=POISSON, metavar="A",
        help=f"{', '.join(ARRIVALS)}, or a trace, of which the gaps between submissions are taken (default: {POISSON})",
    )  # fmt: skip


def _configure_all(parser: argparse.ArgumentParser, jobs: int) -> None:
    parser.add_argument("--jobs", type=int, default=jobs, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default: %(default)s")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE[.gz]", help="written whole or not at all")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    for name in ("jobs", "interarrival", "short_shape", "long_shape", "gpus", "load", "most_gpus"):
        if not 0 < getattr(args, name, 1) < inf:
            raise UsageError(f"--{name.replace('_', '-')} is {getattr(args, name)}: it must be above 0")
    if args.jobs > MOST_JOBS:
        raise UsageError(f"--jobs is {args.jobs}: {MOST_JOBS:,} is the most")
    if args.seed < 0:
        raise UsageError(f"--seed is {args.seed}: it must be 0 or more")
    output.check([args.out])
    lines = _lines(_generated(args))
    packed = args.out.suffix == ".gz"
    output.write({args.out: gzip.compress("".join(lines).encode(), mtime=0) if packed else lines})
    return 0


def _generated(args: argparse.Namespace) -> Trace:
    if args.kind == "philly-like":
        return philly_like(args.jobs, args.seed, gpus=args.gpus, load=args.load)
    if args.kind == "placement":
        arrivals = args.arrivals if args.arrivals in ARRIVALS else read_trace(Path(args.arrivals))
        return PlacementWorkload(args.jobs, arrivals, args.load, args.most_gpus).trace(args.seed, args.gpus)
    shapes = {"short_shape": args.short_shape, "long_shape": args.long_shape}
    return paper_testbed(args.jobs, args.seed, interarrival=args.interarrival, **shapes)


def _lines(trace: Trace) -> Iterator[str]:
    """All times are whole seconds, and no word needs quotation marks."""
    yield ",".join(REQUIRED + OPTIONAL) + "\n"
    numbers = (column.astype(int).tolist() for column in (trace.submit, trace.gpus, trace.duration))
    for row in zip(trace.job_id, *numbers, trace.user, trace.vc, trace.model, trace.status, strict=True):
        yield ",".join(map(str, row)) + "\n"
