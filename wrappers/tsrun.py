"""tsrun: srun inside a job of tsbatch, with the job's TIRESIAS_* variables certain to reach every rank.

    tsrun [any srun option] command [arguments]

It is srun, exec'd: options, output and exit code are srun's. Only where the environment is not exported (--export, or
SLURM_EXPORT_ENV from `sbatch --export=NONE`) are the variables added to the list. An allocation that srun makes itself cannot be
requeued by Slurm, so it is never preempted; one line on standard error says so.

A task that dies ends its step, as with srun --kill-on-bad-exit (whose own word wins, and SLURM_KILL_BAD_EXIT): where one rank ran
out of memory the others would wait for it until the time limit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from tiresias.checkpoint.notes import say

VARIABLES = ("TIRESIAS_CONTROL", "TIRESIAS_CHECKPOINT_DIR", "TIRESIAS_RESTART", "TIRESIAS_SIGNAL", "TIRESIAS_RUN_ID")


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    env = dict(os.environ)
    if "SLURM_JOB_ID" not in env:
        say("srun outside of a job: Slurm cannot requeue it, so it will not be preempted (tsbatch jobs can be)")
    try:
        os.execvpe("srun", ["srun", *with_export(words, env)], {"SLURM_KILL_BAD_EXIT": "1"} | with_export_env(env))
    except OSError:
        say("srun is not in PATH: load your site's Slurm module")
        return 127


def with_export_env(env: Mapping[str, str]) -> dict[str, str]:
    """SLURM_EXPORT_ENV with our variables; NONE becomes the list of them alone."""
    exported = env.get("SLURM_EXPORT_ENV")
    return dict(env) if exported is None else {**env, "SLURM_EXPORT_ENV": _extended(exported, env)}


def with_export(words: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The words with our variables added to --export, where it stands before the first word that is no option."""
    result = list(words)
    for position, word in enumerate(words):
        if word == "--export" and position + 1 < len(words):
            result[position + 1] = _extended(words[position + 1], env)
        elif word.startswith("--export="):
            result[position] = f"--export={_extended(word.partition('=')[2], env)}"
        elif not word.startswith("-") and not (position and _may_take_next(words[position - 1])):
            break
    return result


def _may_take_next(word: str) -> bool:
    """-n and --ntasks, not -n2 or --ntasks=2. A flag such as -v counts too: only srun knows better."""
    return word.startswith("-") and (len(word) == 2 or (word.startswith("--") and "=" not in word))


def _extended(names: str, env: Mapping[str, str]) -> str:
    ours = [name for name in VARIABLES if name in env]
    listed = [] if names in ("NONE", "NIL") else names.split(",")
    return names if "ALL" in listed or not ours else ",".join([*listed, *ours])


if __name__ == "__main__":
    sys.exit(main())
