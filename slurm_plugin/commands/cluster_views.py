"""The part of `tiresias status` that asks several controllers: --clusters."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from tiresias.errors import TiresiasError, UsageError
from tiresias.protocol.status_version import check_version
from tiresias.slurm_plugin.commands.terminal import print_json
from tiresias.slurm_plugin.config import load_option
from tiresias.slurm_plugin.sockets.published_status import ask_status
from tiresias.slurm_plugin.views.clusters_page import Answer, clusters_page
from tiresias.slurm_plugin.views.user_filter import of_user

TIMEOUT_S = 5.0
_AT_ONCE = 32  # controllers that are asked at the same time


def show_clusters(screen: Console, user: str, as_json: bool) -> int:
    """Show the configured clusters; returns the exit code: 1 where a controller does not answer.

    Args:
        screen: where to
        user: whose jobs are listed; "" for none, in JSON for all
        as_json: the published dictionaries by the name of the cluster; of one that does not answer {"error": why}
    """
    answers = ask_all(_configured())
    if as_json:
        print_json({name: _document(answer, user) for name, answer in answers.items()})
    else:
        screen.print(clusters_page(answers, screen.width, time.time(), user))
    return int(any(isinstance(answer, TiresiasError) for answer in answers.values()))


def ask_all(sockets: Mapping[str, Path]) -> dict[str, Answer]:
    """Ask the controllers at the same time; one that does not answer delays the others by no more than TIMEOUT_S."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return dict(zip(sockets, threads.map(_answer, sockets.values()), strict=True))


def _configured() -> dict[str, Path]:
    """Return the sockets by the name of the cluster."""
    pairs = [each.partition("=") for each in load_option("clusters", None)]
    if not pairs:
        raise UsageError('no clusters are configured: add clusters = ["NAME=SOCKET"] to tiresias.toml')
    return {name: Path(path) for name, _, path in pairs}


def _answer(path: Path) -> Answer:
    try:
        status = ask_status(path, TIMEOUT_S)
        check_version(status)
    except TiresiasError as error:
        return error
    return status


def _document(answer: Answer, user: str) -> Mapping[str, Any]:
    if isinstance(answer, TiresiasError):
        return {"error": str(answer)}
    return of_user(answer, user) if user else answer
