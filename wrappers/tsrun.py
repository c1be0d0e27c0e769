"""tsrun: srun inside a job of tsbatch, with the job's TIRESIAS_* variables certain to reach every rank.

    tsrun [any srun option] command [arguments]

It is srun, exec'd: options, output and exit code are srun's. Only where the environment is not exported (--export, or
SLURM_EXPORT_ENV from `sbatch --export=NONE`) are the variables added to the list. An allocation that srun makes itself cannot be
requeued by Slurm, so it is never preempted; one line on standard error states that.

The first tsrun of a kind of job without a profile records the tasks' traffic for a while (trial/begin.py).

A task that dies ends its step, as with srun --kill-on-bad-exit (that option and SLURM_KILL_BAD_EXIT take precedence): without
this the other ranks would wait for it until the time limit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from tiresias.protocol import environment
from tiresias.protocol.job_log import log_line
from tiresias.wrappers.trial import begin

NOTHING: Mapping[str, str] = {}
VARIABLES = (
    environment.CONTROL,
    environment.CHECKPOINT_DIR,
    environment.RESTART,
    environment.SIGNAL,
    environment.RUN_ID,
    environment.SUBMISSION,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Replace this process by srun; return an exit code where that fails."""
    words = list(sys.argv[1:] if argv is None else argv)
    env = dict(os.environ)
    if "SLURM_JOB_ID" not in env:
        log_line("srun outside of a job: Slurm cannot requeue it, so it will not be preempted (tsbatch jobs can be)")
    try:
        recorded = begin.begin(env)
        os.execvpe(
            "srun",
            ["srun", *with_export(words, env, recorded)],
            {"SLURM_KILL_BAD_EXIT": "1"} | with_export_env(env, recorded),
        )
    except KeyboardInterrupt:
        return 130
    except OSError:
        log_line("srun is not in PATH: load your site's Slurm module")
        return 127


def with_export_env(env: Mapping[str, str], added: Mapping[str, str] = NOTHING) -> dict[str, str]:
    """SLURM_EXPORT_ENV with Tiresias's variables; NONE becomes the list of them alone. `added`: for the tasks, but not for srun."""
    exported = env.get("SLURM_EXPORT_ENV") or ("ALL" if added else None)
    return dict(env) if exported is None else {**env, "SLURM_EXPORT_ENV": _extended(exported, env, added)}


def with_export(words: Sequence[str], env: Mapping[str, str], added: Mapping[str, str] = NOTHING) -> list[str]:
    """The words with Tiresias's variables added to --export, where it stands before the first word that is no option."""
    result = list(words)
    for position, word in enumerate(words):
        if word == "--export" and position + 1 < len(words):
            result[position + 1] = _extended(words[position + 1], env, added)
        elif word.startswith("--export="):
            result[position] = f"--export={_extended(word.partition('=')[2], env, added)}"
        elif not word.startswith("-") and not (position and _may_take_next(words[position - 1])):
            break
    return result


def _may_take_next(word: str) -> bool:
    """-n and --ntasks, not -n2 or --ntasks=2. A flag such as -v counts too: only srun can distinguish them."""
    return word.startswith("-") and (len(word) == 2 or (word.startswith("--") and "=" not in word))


def _extended(names: str, env: Mapping[str, str], added: Mapping[str, str]) -> str:
    listed = [] if names in ("NONE", "NIL") else names.split(",")
    extra = [] if "ALL" in listed else [name for name in VARIABLES if name in env]
    extra += [f"{name}={value}" for name, value in added.items()]
    return ",".join([*listed, *extra]) if extra else names


if __name__ == "__main__":
    sys.exit(main())
