"""Saves without the checkpoint library: by the program itself (self_saver.py), or as an image of its processes (images/)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence


class OutsideSave(ABC):
    """The supervisor's part of such saves, for all runs of a script in one allocation.

    Attributes:
        result: What was saved, for the log.
        stays: The save failed after the program had ended; the script continues in this allocation, without a requeue.
    """

    result = ""
    stays = False

    @abstractmethod
    def begin(self) -> None:
        """Before the script starts."""

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command that starts the script. words: the script's own command."""
        return list(words)

    @abstractmethod
    def child_env(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the script's environment."""

    @abstractmethod
    def ask(self) -> str:
        """Request the save; return a message for the log."""

    @abstractmethod
    def has_left(self) -> bool:
        """Whether the program has saved and waits to be ended, or its processes have ended."""

    def has_failed(self) -> bool:
        """Whether the save has ended without a result, and the script runs on."""
        return False

    @abstractmethod
    def step_after(self, code: int) -> int | None:
        """The script has ended. The step with which the job is requeued, -1: none; None: it is not requeued."""

    @abstractmethod
    def late_words(self) -> str:
        """Describe a save that is not complete in time."""

    @abstractmethod
    def ended_words(self) -> str:
        """Describe a job that saved and must not be requeued."""

    @abstractmethod
    def listed(self) -> str:
        """Describe the place of the job's checkpoints."""

    @abstractmethod
    def source(self) -> str:
        """Describe what the next run starts from."""

    @abstractmethod
    def close(self) -> None:
        """After the last run of the script in this allocation."""
