"""TIRESIAS_OPPORTUNISTIC (`tsbatch --opportunistic`): whether the job may run beyond the cells of its virtual cluster.

protocol/opportunistic_choice.py has the choices.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.errors import UsageError
from tiresias.protocol import environment
from tiresias.protocol.opportunistic_choice import CHOICES, RESTART, SAVES, YES

OPTION = "--opportunistic"


def check(choice: str) -> None:
    """Raise UsageError for what is no choice."""
    if choice not in CHOICES:
        raise UsageError(f"{OPTION}={choice!r:.40} is not possible; allowed: {', '.join(CHOICES)}")


def chosen(env: Mapping[str, str]) -> str:
    """Return the choice in an environment; `yes` where it has none."""
    return env.get(environment.OPPORTUNISTIC) or YES


def noted(env: Mapping[str, str], saves: bool) -> str:
    """Return the choice for the controller's note. saves: the program is expected to save."""
    choice = chosen(env)
    return SAVES if choice == YES and saves else choice


def check_plain(env: Mapping[str, str]) -> None:
    """Raise UsageError where a job of plain sbatch is to accept a restart: nothing in it reports the choice."""
    if chosen(env) == RESTART and env.get(environment.CHECKPOINT) == "none":
        raise UsageError(
            f"{OPTION}={RESTART} contradicts {environment.CHECKPOINT}=none, a job of plain sbatch that is never preempted; "
            f"leave {environment.CHECKPOINT} out: with {OPTION}={RESTART} the program need not save"
        )


def check_requeue(env: Mapping[str, str], asked: Mapping[str, str]) -> None:
    """Raise UsageError where the job is to start again and cannot be requeued. asked: the submit options."""
    if chosen(env) == RESTART and asked.get("requeue") == "no":
        raise UsageError(
            f"{OPTION}={RESTART} contradicts --no-requeue, which keeps the job from starting again; leave one of them out"
        )
