"""The live view of `tiresias services --watch`."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console, RenderableType

from tiresias.slurm_plugin.commands.live_page import LivePage
from tiresias.slurm_plugin.commands.services_command import ask_service
from tiresias.slurm_plugin.commands.terminal import user_name
from tiresias.slurm_plugin.views.services_page import render_services


def watch(folder: Path, console: Console) -> int:
    """Show the live view until it is ended and return the exit code.

    Args:
        folder: Of the report.
        console: Standard output.

    Raises:
        TiresiasError: There is no recent report at the start.
    """
    return _LiveServices(folder, console).show()


class _LiveServices(LivePage):
    def __init__(self, folder: Path, console: Console) -> None:
        self._folder = folder
        super().__init__(console)

    def ask(self) -> None:
        self._view = ask_service(self._folder)

    def page(self, width: int, height: int) -> RenderableType:
        return render_services(self._view, width, height, time.time(), user_name)
