"""The client's side of `{"op": "status"}`: the document that a controller publishes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from tiresias.slurm_plugin.sockets.control_client import ask

if TYPE_CHECKING:
    from tiresias.protocol.status import Status

WHOLE_TIMEOUT_S = 60.0  # with 100,000 jobs the answer has 90 MB, and takes 8 s to make on an idle machine


def ask_status(path: Path, timeout: float = WHOLE_TIMEOUT_S) -> Status:
    """Return the published status with all jobs and nodes.

    Args:
        path: the control socket
        timeout: seconds

    Raises:
        TiresiasError: no controller answers.
    """
    return cast("Status", ask(path, {"op": "status"}, timeout))


def ask_screen(path: Path, lines: int, cells: int, user: str = "", timeout: float = 5.0) -> Status:
    """Return what a screen can show of the published status.

    Args:
        path: the control socket
        lines: of the screen
        cells: of a line
        user: name of the user whose jobs are listed; "": all users
        timeout: seconds

    Raises:
        TiresiasError: no controller answers.
    """
    request = {"op": "status", "lines": lines, "cells": cells, "user": user}
    return cast("Status", ask(path, request, timeout))


def ask_responsive(path: Path) -> Status:
    """Return the published status with all jobs and nodes of a controller that answers a small request in 5 s.

    A whole answer may take long. So a controller that hangs is not waited for as long.

    Args:
        path: the control socket

    Raises:
        TiresiasError: no controller answers.
    """
    ask_screen(path, 1, 1)
    return ask_status(path)
