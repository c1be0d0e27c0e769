"""A process next to srun on the job's first node that ends the recording and writes the profile.

It analyses the recordings of its node until two results agree, ends the recording on all nodes, and writes the profile of all
recordings to the user's profiles. It is niced, and analyses at growing intervals. It also ends with srun, or after LONGEST.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tiresias.errors import TiresiasError
from tiresias.profiler.analysis import Profile, analyze
from tiresias.profiler.network import cross_check, port_counters
from tiresias.profiler.network.link import fastest
from tiresias.profiler.placement_verdict import PACKLIMIT, SURE
from tiresias.profiler.recordings.recording import BadRecording, Recording, read
from tiresias.protocol import control, environment
from tiresias.protocol.files import remove_flat
from tiresias.protocol.job_log import log_line
from tiresias.protocol.profile_summary import REASONS, Summary, as_object
from tiresias.wrappers import isolated
from tiresias.wrappers.trial.begin import Trial, of_job
from tiresias.wrappers.trial.fold import fold, recordings

# seconds to the first analysis; how many times longer each pause is than the one before; seconds of the longest
FIRST, SELDOM, LATEST = 2.0, 1.5, 30.0
LONGEST = 900.0  # seconds of recording
ITERATIONS = 10  # that are enough
SAME = 0.05  # two analyses that agree differ by less
FOLD_TIMEOUT = 120.0  # seconds for all nodes
GIGABIT = 1e9 / 8


def watch(trial: Trial, srun: int) -> None:
    """Returns when the recording is to end."""
    before: Profile | None = None
    pause, deadline = FIRST, time.monotonic() + LONGEST
    while os.getppid() == srun and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * SELDOM, LATEST)
        seen = analyze(_read(recordings(trial.local)))
        if before and agree(before, seen):
            return
        before = seen


def agree(before: Profile, after: Profile) -> bool:
    """Whether two analyses agree, with enough iterations."""
    one, two = before.period, after.period
    if one is None or two is None or min(one.confidence, two.confidence) < SURE or after.iterations < ITERATIONS:
        return False
    return abs(one.seconds - two.seconds) <= SAME * two.seconds and before.shape.kind == after.shape.kind


def collect(trial: Trial, env: Mapping[str, str]) -> list[Recording]:
    """Of all nodes. The recordings of an earlier run of the job are replaced."""
    target = trial.control / control.PROFILE
    remove_flat(target)
    target.mkdir(mode=0o700)
    nodes = env.get("SLURM_JOB_NUM_NODES", "1")
    if nodes == "1":
        fold(trial.local, target)
    else:
        _fold_everywhere(trial.local, target, nodes, env)
    return _read(recordings(target))


def _fold_everywhere(local: Path, target: Path, nodes: str, env: Mapping[str, str]) -> None:
    """By a step of the job beside the one that trains. What asks for tasks, CPUs or GPUs in the environment is for that one."""
    step_env = {
        name: value for name, value in env.items() if not name.startswith(("SLURM_", "SRUN_")) or name == "SLURM_CONF"
    }
    options = (
        f"--jobid={env.get('SLURM_JOB_ID', '')}", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1",
        "--gres=none", "--mem=0", "--cpu-bind=none", "--quiet", "--input=none", "--export=ALL",
    )  # fmt: skip
    command = ["srun", *options, *isolated.command("tiresias.wrappers.trial.fold", str(local), str(target))]
    try:
        subprocess.run(
            command,
            env=step_env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=FOLD_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        log_line(f"the nodes did not bring what they recorded within {FOLD_TIMEOUT:.0f} s")


def _read(files: Iterable[Path]) -> list[Recording]:
    found = []
    for file in files:
        with suppress(BadRecording):
            found.append(read(file, os.getuid()))
    return found


def summarize(profile: Profile, job: str, made: float, trials: int) -> Summary:
    """Return the summary of a profile, with the job, epoch second and number of trials."""
    period, shape = profile.period, profile.shape
    return Summary(
        profile.verdict.decision, profile.verdict.reasons[:REASONS], shape.kind, profile.skew, profile.intensity,
        float(shape.model), float(profile.largest), period.seconds if period else 0.0, period.confidence if period else 0.0,
        profile.iterations, shape.workers, len(shape.servers), job, made, trials,
    )  # fmt: skip


def keep(trial: Trial, profile: Profile, now: float) -> Summary:
    """The summary goes to the user's profiles, where the controller finds it, and the next job of this kind."""
    known = trial.known()
    found = summarize(profile, trial.control.name, now, known.trials + 1 if known else 1)
    trial.profiles.mkdir(mode=0o755, exist_ok=True)
    control.write(trial.profiles, trial.key.file, as_object(trial.key, found))
    return found


def main() -> int:
    """`watch PID`: beside the srun of this number, in the environment of the job."""
    env = os.environ
    trial = of_job(env)
    if trial is None:
        return 2
    os.nice(19)
    try:
        before = port_counters.read()
        watch(trial, int(sys.argv[1]))
        left = port_counters.sent(before, port_counters.read())
        found = collect(trial, env)
        if not found:
            log_line("this run is not profiled: no process sent anything over TCP or RDMA that the recorder sees")
            return 0
        speed = _positive(env.get(environment.PLACEMENT_BANDWIDTH))
        limit = _positive(env.get(environment.PLACEMENT_PACKLIMIT)) or PACKLIMIT
        profile = analyze(found, limit, speed * GIGABIT if speed else fastest())
        summary = keep(trial, profile, time.time())
        log_line(f"profiled: {summary.decision}; {summary.reasons[0] if summary.reasons else ''}")
        for note in cross_check.ports(found, {os.uname().nodename: left} if left else {}):
            log_line(f"profiled: {note}")
    except (TiresiasError, OSError) as error:
        log_line(f"this run could not be profiled: {error}")
    return 0


def _positive(text: str | None) -> float:
    """0 where it is none."""
    with suppress(ValueError):
        return max(float(text or 0), 0.0)
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
