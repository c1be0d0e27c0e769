"""One job on an aggregator: its settings, tensors and connections, and the bound of its memory.

The folder of a job has 0600 files: job.json (settings and key), a `.tensor` file for each master copy, a `.staged` file for each
copy that is not committed, a `.moved` file for each tensor that another aggregator has taken over.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tiresias.errors import TiresiasError, UsageError
from tiresias.protocol.job_log import log_line
from tiresias.services.parameter_service.aggregator.gradient_transfers import gradient_buffers
from tiresias.services.parameter_service.aggregator.idle_window import IdleWindow
from tiresias.services.parameter_service.aggregator.lost_ranks import LostRanks
from tiresias.services.parameter_service.aggregator.master_copy import MasterCopy
from tiresias.services.parameter_service.aggregator.optimizer_kernels import OptimizerKernel, optimizer_kernels
from tiresias.services.parameter_service.aggregator.tensor_declaration import TensorDeclaration
from tiresias.services.parameter_service.aggregator.tensor_file import (
    ACTIVE,
    MOVED,
    PREPARING,
    STAGED,
    TensorFile,
    file_bytes,
)
from tiresias.services.parameter_service.messages.aggregator_messages import AdoptJob
from tiresias.services.wire.connection import Connection


class MovedTensor(NamedTuple):
    """Where a tensor has gone.

    Attributes:
        address: The new master.
        epoch: The epoch that began there.
        run: The run of the job that declared it.
    """

    address: str
    epoch: int
    run: int


class JobEvents(NamedTuple):
    """What the aggregator does.

    Attributes:
        left: A tensor is to be copied to another aggregator.
        all_pushed: Each rank has pushed to a tensor.
        admits: Return whether the next idle window has the time to copy a tensor.
        idle: The idle window of the job begins.
        busy: It ends: a step of the job begins.
        kernels: The updates of each dtype; none: those of NumPy.
    """

    left: Callable[[HostedJob, MasterCopy], None]
    all_pushed: Callable[[HostedJob, MasterCopy], None]
    admits: Callable[[HostedJob, MasterCopy], bool] = lambda job, copy: True
    idle: Callable[[HostedJob], None] = lambda job: None
    busy: Callable[[HostedJob], None] = lambda job: None
    kernels: Mapping[str, OptimizerKernel] = MappingProxyType({})


class HostedJob:
    """The state of one job.

    Args:
        folder: Its folder.
        settings: As the manager sent them.
        events: What the aggregator does.

    Attributes:
        tensors: The master copies, by name.
        staged: Copies that are not committed, by name.
        moved: Tensors of other aggregators that were here, by name.
        connections: The agents, by rank.
        lost: The ranks whose connection has ended.
        window: Its idle windows.
    """

    def __init__(self, folder: Path, settings: AdoptJob, events: JobEvents) -> None:
        self.folder, self.settings, self._events = folder, settings, events
        self.tensors: dict[str, MasterCopy] = {}
        self.staged: dict[str, MasterCopy] = {}
        self.moved: dict[str, MovedTensor] = {}
        self.connections: dict[int, Connection] = {}
        self.lost = LostRanks()
        self.window = IdleWindow()
        self._updated, self._pulled = set[str](), set[str]()  # tensors of this step
        self._kernels = events.kernels or optimizer_kernels()

    @classmethod
    def opened(cls, folder: Path, events: JobEvents) -> HostedJob:
        """Return the job of a folder, without its tensors: see load().

        Raises:
            UsageError: Its settings are damaged.
        """
        try:
            settings = AdoptJob(**json.loads((folder / "job.json").read_text()))
        except (OSError, TypeError, ValueError) as error:
            raise UsageError(f"{folder}: damaged settings of a job: {error}") from error
        return cls(folder, settings, events)

    @property
    def key(self) -> bytes:
        """The job's key."""
        return bytes.fromhex(self.settings.key)

    def store(self) -> None:
        """Write the settings, in a file that only this user can read."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_privately(self.folder / "job.json", asdict(self.settings))

    @property
    def memory_bytes(self) -> int:
        """The memory of all its tensors: two slots, and the gradients of the ranks."""
        return sum(self.needed(each.file.declaration) for each in self._copies())

    def needed(self, declaration: TensorDeclaration) -> int:
        """Return the memory of a tensor."""
        buffers = gradient_buffers(self.settings.workers, self.settings.compress)
        return file_bytes(declaration, self.settings.workers) + buffers * declaration.bytes

    def check_memory(self, declaration: TensorDeclaration, free_bytes: int) -> None:
        """Check both bounds.

        Raises:
            UsageError: The job would exceed its bound, or the aggregator its own.
        """
        needed, used = self.needed(declaration), self.memory_bytes
        if used + needed > self.settings.memory_bytes:
            raise UsageError(
                f"tensor {declaration.tensor}: needs {needed} bytes, and job {self.settings.job} uses {used} of its bound of "
                f"{self.settings.memory_bytes} bytes on this aggregator"
            )
        if needed > free_bytes:
            raise UsageError(
                f"tensor {declaration.tensor}: needs {needed} bytes; this aggregator has {free_bytes} free"
            )

    def _copies(self) -> Iterator[MasterCopy]:
        yield from self.tensors.values()
        yield from self.staged.values()

    def all_copies(self) -> list[MasterCopy]:
        """Return the master copies and the staged ones."""
        return list(self._copies())

    def create(self, declaration: TensorDeclaration, epoch: int, run: int) -> MasterCopy:
        """Create a master copy that is filled and committed later.

        Raises:
            OSError: No memory.
        """
        path = self.path(declaration.tensor, declaration, "tensor")
        return self.copy_of(TensorFile.create(path, declaration, self.settings.workers, epoch, ACTIVE, run))

    def create_staged(self, declaration: TensorDeclaration, epoch: int, run: int) -> MasterCopy:
        """Create a copy for a migration. Any thread may call it.

        Raises:
            OSError: No memory.
        """
        path = self.path(declaration.tensor, declaration, "staged")
        return self.copy_of(TensorFile.create(path, declaration, self.settings.workers, epoch, PREPARING, run))

    def path(self, name: str, declaration: TensorDeclaration, suffix: str) -> Path:
        """Return the file of a tensor."""
        return self.folder / f"{declaration.file_name}.{suffix}"

    def copy_of(self, file: TensorFile) -> MasterCopy:
        """Return the master copy of a file."""
        return MasterCopy(file, self.settings, self._kernels[file.declaration.dtype], self)

    def left(self, copy: MasterCopy) -> None:
        """A tensor is to be copied to another aggregator."""
        self._events.left(self, copy)

    def all_pushed(self, copy: MasterCopy) -> None:
        """Each rank has pushed to a tensor."""
        self._events.all_pushed(self, copy)

    def admits(self, copy: MasterCopy) -> bool:
        """Return whether the next idle window has the time to copy a tensor."""
        return self._events.admits(self, copy)

    def pushing(self) -> None:
        """A push begins to arrive: the idle window ends. An asynchronous job has no such window."""
        if self.window.is_open and self.settings.mode == "synchronous":
            self.window.close()
            self._events.busy(self)

    def updated(self, copy: MasterCopy) -> None:
        """An update was made. A second one of the same tensor ends the step too: a job cannot make one step of all its work."""
        if copy.name in self._updated:
            self._open_window()
        self._updated.add(copy.name)

    def pulled(self, copy: MasterCopy) -> None:
        """Each rank has been sent the parameters of this step."""
        self._pulled.add(copy.name)
        self.open_window_if_idle()

    def open_window_if_idle(self) -> None:
        """Open the idle window when each tensor has been updated and pulled in this step, and every answer is sent."""
        if len(self._pulled) >= len(self.tensors) and self.answered:
            self._open_window()

    def _open_window(self) -> None:
        if not self.window.is_open:
            self._updated.clear()
            self._pulled.clear()
            self.window.open()
            for connection in self.connections.values():
                connection.turn_ends = True  # the next step has a turn of its own
            self._events.idle(self)

    @property
    def answered(self) -> bool:
        """Whether no answer to an agent is on its way."""
        return not any(each.queued for each in self.connections.values())

    def commit_staged(self, name: str) -> MasterCopy:
        """Make a staged copy the master."""
        copy = self.staged.pop(name)
        copy.begin()
        copy.file.rename(copy.file.path.with_suffix(".tensor"))
        copy.file.path.with_suffix(".moved").unlink(missing_ok=True)
        self.moved.pop(name, None)
        self.tensors[name] = copy
        return copy

    def discard_staged(self, name: str) -> None:
        """Remove a staged copy."""
        if copy := self.staged.pop(name, None):
            copy.give_up()
            copy.file.remove()

    def note_moved(self, name: str) -> MasterCopy:
        """Replace a tensor that was given up by a note of its new place; return it."""
        copy = self.tensors.pop(name)
        file = copy.file
        moved = MovedTensor(file.moved_to, file.epoch, file.run)
        replace_privately(file.path.with_suffix(".moved"), {"tensor": name, **moved._asdict()})
        self.moved[name] = moved
        copy.give_up()
        file.remove()
        return copy

    def remove(self) -> None:
        """Delete the job's files."""
        for copy in self.all_copies():
            copy.give_up()
        shutil.rmtree(self.folder, ignore_errors=True)

    def load(self) -> list[MasterCopy]:
        """Read the folder after a restart; return the tensors that were given up and whose commit may not have arrived."""
        for path in self.folder.glob("*.moved"):
            content = json.loads(path.read_text())
            name = content.pop("tensor")
            self.moved[name] = MovedTensor(**content)
        for path in sorted([*self.folder.glob("*.tensor"), *self.folder.glob("*.staged")]):
            try:
                self._load_tensor(TensorFile.open(path, self.settings.workers))
            except (TiresiasError, OSError) as error:
                log_line(f"parameter service: {error}")
        return [copy for copy in self.tensors.values() if copy.file.state == MOVED]

    def _load_tensor(self, file: TensorFile) -> None:
        name, copy = file.declaration.tensor, self.copy_of(file)
        if file.path.suffix == ".tensor":
            self.tensors[name] = copy
            copy.leaving = file.state == MOVED
        elif file.state == PREPARING:
            file.remove()
        else:
            self.staged[name] = copy
            if file.state == ACTIVE:  # ended between the commit and the new name
                self.commit_staged(name)
        if file.state in {ACTIVE, STAGED}:
            copy.report_all_pushed()


def replace_privately(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file that only this user can read; a reader sees the old or the new content."""
    temporary = path.with_name(path.name + ".part")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(content, file)
    temporary.rename(path)
