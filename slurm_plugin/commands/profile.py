"""Report the traffic of a job's processes, and which placement the job therefore needs.

For a job that tsrun recorded give its JOBID, as squeue prints it. Otherwise name the .net files that the recorder wrote, one for
each process, of all processes of one job, or their folder.
The verdict is consolidate (the fewest nodes), spread (any free GPUs) or unknown, with its reasons. Jobs with parameter servers are
classified by their skew, the largest tensor's share of the model; all-reduce jobs by the time that they communicate, for which
--bandwidth is needed.

Not recorded: shared memory, GPU-initiated and direct verbs, io_uring. Record a run on at least two nodes.

examples:
  tiresias profile 4711
  tiresias profile /tmp/recordings
  tiresias profile gpu01.4711.*.net gpu02.998.*.net --bandwidth 100
  tiresias profile /tmp/recordings --json
  tiresias profile /tmp/recordings --plot profile.png
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from tiresias.errors import UsageError
from tiresias.profiler.analysis import analyze
from tiresias.profiler.placement_verdict import PACKLIMIT
from tiresias.profiler.recordings.recording import Recording, read
from tiresias.profiler.views import profile_plots
from tiresias.profiler.views.profile_report import as_json, report
from tiresias.protocol import control, environment
from tiresias.slurm_plugin.commands.terminal import JOB_ID
from tiresias.slurm_plugin.config import load_option

MAX_FILES = 4096  # of one job
BYTES_PER_GIGABIT = 1e9 / 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE|JOBID", help="a .net file, a folder of them, or a job"
    )
    parser.add_argument(
        "--packlimit",
        type=_share,
        default=PACKLIMIT,
        help=f"skew above which a job is consolidated (default {PACKLIMIT})",
    )
    parser.add_argument("--bandwidth", type=_positive, metavar="GBIT", help="bandwidth of a node's link in Gbit/s")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="plot sizes and time line")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    if args.plot:
        profile_plots.check(args.plot)
    bandwidth = args.bandwidth * BYTES_PER_GIGABIT if args.bandwidth else None
    profile = analyze(_recordings(args.files), args.packlimit, bandwidth)
    if args.plot:
        profile_plots.draw(profile, args.plot)
    if args.json:
        print(json.dumps(as_json(profile), indent=2))
    else:
        console = Console(highlight=False)
        for part in report(profile):
            console.print(part)
    return 0


def _recordings(named: list[Path]) -> list[Recording]:
    files = [file for path in named for file in _files(path)]
    if len(files) > MAX_FILES:
        raise UsageError(f"{len(files)} files: a job may have {MAX_FILES}; name fewer")
    return [read(file) for file in dict.fromkeys(files)]


def _files(path: Path) -> Iterator[Path]:
    if JOB_ID.fullmatch(str(path)) and not path.exists():
        path = _of_job(str(path))
    if not path.is_dir():
        yield path
        return
    found = sorted(path.glob("*.net"))
    if not found:
        raise UsageError(f"{path}: contains no .net file; name the folder that the job recorded into")
    yield from found


def _of_job(job: str) -> Path:
    """Return the folder of the recording in the job's control folder; the caller's own job comes first."""
    roots = _control_roots()
    found = [path for root in roots for path in root.glob(f"*/{job}/{control.PROFILE}") if _is_of_its_user(path)]
    if not found:
        raise UsageError(
            f"job {job} left no recording below {' or '.join(map(str, roots))}: tsrun records the first job of a name, script "
            "and number of GPUs; set TIRESIAS_CONTROL_ROOT if it is elsewhere"
        )
    own = [path for path in found if _user_of(path) == str(os.getuid())]
    if len(found) > 1 and not own:
        raise UsageError(f"several users have recordings of job {job}: name the folder, {' or '.join(map(str, found))}")
    return (own or found)[0]


def _user_of(profile: Path) -> str:
    return profile.parent.parent.name


def _is_of_its_user(profile: Path) -> bool:
    """Return whether the folder belongs to the user in its path. Any user may have a folder for any job id."""
    folders = (profile, profile.parent, profile.parent.parent)
    return all(str(each.lstat().st_uid) == _user_of(profile) and not each.is_symlink() for each in folders)


def _control_roots() -> list[Path]:
    if named := os.environ.get(environment.CONTROL_ROOT):
        return [Path(named)]
    return [Path(load_option("paths.control", None)), Path.home() / ".tiresias" / "control"]


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value
