"""What Slurm's own commands tell; "" where they fail, as a doctor looks on."""

from __future__ import annotations

from tiresias.slurm_plugin.backends import processes
from tiresias.slurm_plugin.backends.protocol import SlurmUnavailable

DEADLINE = 20.0


def output(*words: str) -> str:
    try:
        done = processes.run(words, DEADLINE)
    except SlurmUnavailable:
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""
