"""TIRESIAS_CHECKPOINT=signal:NAME:FOLDER: the job's program saves by itself when it gets a signal, and resumes by itself.

NAME: the signal, such as TERM. FOLDER: where the program saves, or a pattern of files and folders, such as out/checkpoint-*; what
changes there is the evidence that it did.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import UsageError
from tiresias.protocol import environment
from tiresias.wrappers.images import option

FORM = f"{environment.CHECKPOINT}=signal:NAME:FOLDER"
UNSUITABLE = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT}


class SelfSaving(NamedTuple):
    """The option of a self-saving program: the signal, and the folder as written, relative to the job's working directory."""

    number: signal.Signals
    folder: str

    @property
    def path(self) -> Path:
        """The folder, with `~` and the variables of this process's environment expanded."""
        return Path(os.path.expandvars(self.folder)).expanduser()


def parse(text: str) -> SelfSaving:
    """Parse the option. Raises UsageError."""
    kind, _, rest = text.partition(":")
    name, _, folder = rest.partition(":")
    if kind != "signal" or not folder.strip():
        names = ", ".join(["none", *option.TOOLS])
        raise UsageError(
            f"{environment.CHECKPOINT}={text!r:.60}: use {names}, or signal:NAME:FOLDER such as signal:TERM:outputs"
        )
    number = getattr(signal, f"SIG{name.upper().removeprefix('SIG')}", None)
    if not isinstance(number, signal.Signals) or number in UNSUITABLE:
        raise UsageError(
            f"{FORM}: {name!r:.20} is not a signal that a program can handle; use a name such as TERM or USR1"
        )
    return SelfSaving(number, folder.strip())


def from_env(env: Mapping[str, str]) -> SelfSaving | None:
    """None where the variable is unset, empty, `none` or an image tool (images/option.py). Raises UsageError."""
    text = env.get(environment.CHECKPOINT, "")
    return parse(text) if text not in ("", "none", *option.TOOLS) else None
