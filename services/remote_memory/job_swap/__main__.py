"""The swap of a job on remote memory: python -m tiresias.services.remote_memory.job_swap PART

prolog FILE          in Slurm's Prolog: start the swap of a job that requests one; FILE is the configuration (swap_settings.py)
epilog FILE          in Slurm's Epilog: remove it
lines                in Slurm's TaskEpilog: the lines of a job of sbatch about its remote memory, in its output
remove FILE JOB      by hand: remove the swap of a job whose processes have ended
node                 print what this node has for it, and whether the donors of its configuration answer, as JSON
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from tiresias.errors import TiresiasError
from tiresias.services.remote_memory.job_swap import (
    node_ability,
    output_lines,
    prolog,
    swap_process,
    swap_request,
    use_publication,
)
from tiresias.services.remote_memory.job_swap.donor_answers import configuration_state
from tiresias.services.remote_memory.job_swap.page_store import DiskStore, PageStore
from tiresias.services.remote_memory.job_swap.swap_process import SwapOrder
from tiresias.services.remote_memory.job_swap.swap_settings import SwapSettings, read_swap_settings


def main(argv: list[str] | None = None) -> int:
    """Run one part; return the exit code."""
    args = _parser().parse_args(argv)
    try:
        if args.part == "node":
            print(json.dumps(_node()))
        elif args.part == "prolog":
            _prolog(args.file)
        elif args.part == "serve":
            _serve(read_swap_settings(args.file), args.job, args.size)
        elif args.part == "publish":
            use_publication.publish_refusal(read_swap_settings(args.file), args.job, os.environ)
        elif args.part == "lines":
            output_lines.print_lines(os.environ)
        else:
            job = args.job if args.part == "remove" else swap_request.job_of(os.environ)
            prolog.run_epilog(read_swap_settings(args.file), job, os.environ)
    except (TiresiasError, OSError) as error:
        print(f"tiresias: {prolog.own_error(error)}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    for name in ("prolog", "epilog", "remove", "serve", "publish", "node", "lines"):
        part = parts.add_parser(name)
        if name not in ("node", "lines"):
            part.add_argument("file", type=Path, metavar="FILE")
        if name in ("remove", "serve", "publish"):  # publish: started by the prolog
            part.add_argument("job", metavar="JOB")
        if name == "serve":  # started by the prolog
            part.add_argument("size", type=int, metavar="BYTES")
    return parser


def _prolog(file: Path) -> None:
    """Start the swap; a failure is recorded and is none of the prolog, except for a wrong configuration."""
    settings = read_swap_settings(file)
    try:
        prolog.run_prolog(settings, file, os.environ)
    except (TiresiasError, OSError) as error:
        prolog.refuse(settings, file, os.environ, prolog.own_error(error))


def _serve(settings: SwapSettings, job: str, size: int) -> None:
    reported = use_publication.reported_job(settings, job, os.environ, size)
    order = SwapOrder(job, size, settings.zram_bytes, settings.run, settings.cgroups, reported)
    swap_process.serve(order, lambda: _store(settings, job, size, reported.node), _report_ready)


def _store(settings: SwapSettings, job: str, size: int, node: str) -> PageStore:
    if not settings.donors:
        return DiskStore(settings.disk, size)
    from tiresias.services.remote_memory.job_swap.leaf_donors import near_donors_of
    from tiresias.services.remote_memory.job_swap.region_store import open_region

    return open_region(job, size, settings, near_donors_of(settings, node))


def _report_ready() -> None:
    os.write(1, swap_process.READY)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _node() -> dict[str, object]:
    return {
        "missing": node_ability.missing(),
        "cgroup": node_ability.cgroup_version(),
        "compression": node_ability.compression(),
        "risks": node_ability.isolation_risks(_slurm_settings()),
        "configuration": configuration_state(),
    }


def _slurm_settings() -> str:
    """Return what scontrol prints of the configuration, "" without an answer of Slurm."""
    try:
        done = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
