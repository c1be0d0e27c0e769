"""The live view of `tiresias cells --watch`: all virtual clusters, or one after the other."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console, RenderableType

from tiresias.slurm_plugin.commands.cells_command import ask_cells
from tiresias.slurm_plugin.commands.live_page import LivePage
from tiresias.slurm_plugin.views.cells_page import chosen, render_cells

ANSWER_TIMEOUT_S = 5.0  # keys are not read meanwhile
_STEPS = {"j": 1, "down": 1, "k": -1, "up": -1}


def watch(path: Path, console: Console, only: str) -> int:
    """Show the live view until it is ended and return the exit code.

    Args:
        path: The control socket.
        console: Standard output.
        only: Name of the virtual cluster that is shown first; "": all.

    Raises:
        TiresiasError: No controller answers at the start, or there is no such virtual cluster.
    """
    return _LiveCells(path, console, only).show()


class _LiveCells(LivePage):
    hints = "j k another virtual cluster  a all  q quit"

    def __init__(self, path: Path, console: Console, only: str) -> None:
        self._path, self._only = path, ""
        super().__init__(console)
        chosen(self._cells, only)
        self._only = only

    def ask(self) -> None:
        self._cells = ask_cells(self._path, ANSWER_TIMEOUT_S)
        if all(each["name"] != self._only for each in self._cells["virtual_clusters"]):
            self._only = ""  # a reload has removed it

    def page(self, width: int, height: int) -> RenderableType:
        return render_cells(self._cells, width, height, time.time(), self._only)

    def press(self, key: str) -> None:
        names = ["", *(each["name"] for each in self._cells["virtual_clusters"])]
        if key == "a":
            self._only = ""
        elif key in _STEPS:
            self._only = names[(names.index(self._only) + _STEPS[key]) % len(names)]
