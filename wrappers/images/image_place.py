"""The place where one run is dumped by an image tool, and what the other modules of this folder need of a tool.

A tool is one module of this folder, named as its value of `tsbatch --checkpoint`, and a line of option.TOOLS. The module's `PLACE`
is a subclass of ImagePlace.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from tiresias.errors import TiresiasError
from tiresias.wrappers.images import option

IMAGES = "images"  # the folder of the image's files


class ProgramLost(TiresiasError):
    """A dump failed in a way that the program cannot continue from: it was ended."""


class ImagePlace(ABC):
    """A private folder on the node in which one run is dumped.

    Attributes:
        TOOL: The value of `tsbatch --checkpoint`.
        INSTALL: What to do where the tool is missing.
        SAME_FOLDER: An image is restored only in a folder of the same path.
        CUTS_FILES: The tool cuts files that the program writes to their length at the dump.
        OWN_BYTES: What the tool's own files beside the image take at most.
        FAILED_CODE: Exit code of a program that the tool could not dump or restore; None where it has none of its own.
        folder: The folder.
        address: A word by which other processes find the tool in this run.
    """

    TOOL: ClassVar[str]
    INSTALL: ClassVar[str]
    SAME_FOLDER: ClassVar[bool] = False
    CUTS_FILES: ClassVar[bool] = False
    OWN_BYTES: ClassVar[int] = 0
    FAILED_CODE: ClassVar[int | None] = None

    def __init__(self, folder: Path, address: str = "-") -> None:
        self.folder, self.address = folder, address

    @property
    def images(self) -> Path:
        """The folder of the image's files."""
        return self.folder / IMAGES

    def has_image(self) -> bool:
        """Whether the folder holds an image's files."""
        return self.images.is_dir() and any(self.images.iterdir())

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """Return the tool's version on this node, "" where it is not installed."""

    @classmethod
    @abstractmethod
    def missing(cls) -> str:
        """Return why the tool does not work on this node, "" where it does."""

    @abstractmethod
    def start(self) -> int:
        """Make the folder of images; return the process that the tool needs beside the program, 0: none. Raises OSError."""

    @abstractmethod
    def launch(self, words: Sequence[str]) -> list[str]:
        """Return the command that starts a program so that it can be dumped."""

    @abstractmethod
    def restart(self) -> list[str]:
        """Return the command that becomes the program, restored from the folder of images."""

    @abstractmethod
    def running(self) -> bool:
        """Whether the program runs, False while it is launched, dumped or restored."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Return the ids of the program's processes."""

    def gpu_problem(self) -> str:
        """Return why a program that uses GPUs cannot be dumped, "" where it can."""
        return f"{option.TOOLS[self.TOOL]} cannot dump the memory of a GPU"

    @abstractmethod
    def dump(self) -> str:
        """Dump the program into the folder of images; return "" for a complete image, or why it is none.

        No process of the program executes an instruction after a complete image, until `resume`. Raises ProgramLost.
        """

    def is_complete(self) -> bool:
        """Whether the folder holds a complete image of a program that has ended with it."""
        return False

    def why_not(self, pids: list[int]) -> str:
        """Return why the tool cannot dump these processes, "" where nothing is known against it."""
        return ""

    @abstractmethod
    def end(self) -> None:
        """End the program; it may have ended already."""

    @abstractmethod
    def resume(self) -> bool:
        """Let a program that has been dumped continue; return False where it has ended with its image."""


def kind(tool: str) -> type[ImagePlace]:
    """Return the class of a tool. tool: of option.TOOLS."""
    place: type[ImagePlace] = import_module(f"{__package__}.{tool}").PLACE
    return place
