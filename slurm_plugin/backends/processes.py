"""How this folder starts programs: no shell, a clean environment, a deadline after which the whole process group is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from tiresias.slurm_plugin.backends.interface import SlurmUnavailable, TimedOut

NOTHING: Mapping[str, str] = {}
# A SQUEUE_FORMAT, SLURM_CLUSTERS or SCANCEL_USER in the daemon's environment would change the commands' behaviour.
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "TMPDIR")


def environment() -> dict[str, str]:
    """Return the environment of Slurm's commands."""
    kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
    return {**kept, "LC_ALL": "C", "SLURM_BITSTR_LEN": "0"}  # 0: array task lists are not cut at 64 bytes


def run(
    argv: Sequence[str], deadline: float, prefix: Sequence[str] = (), variables: Mapping[str, str] = NOTHING
) -> subprocess.CompletedProcess[bytes]:
    """Raises TimedOut when it takes longer than `deadline` seconds, SlurmUnavailable when the program is not there. `variables`:
    more environment."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            [*prefix, *argv],
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env={**environment(), **variables},
            start_new_session=True,
        )
    except OSError as error:
        raise SlurmUnavailable(f"cannot run {argv[0]}: {error.strerror}: is slurm-client installed?") from error
    with process:
        try:
            out, err = process.communicate(timeout=deadline)
        except subprocess.TimeoutExpired as error:
            raise TimedOut(f"{' '.join(argv)} did not end within {deadline:g} s: is slurmctld up?") from error
        finally:
            kill_group(process)
    return subprocess.CompletedProcess(list(argv), process.returncode, out, err)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children, unless it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
