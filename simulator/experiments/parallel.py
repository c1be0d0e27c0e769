"""Runs independent tasks in parallel, in a process each, at most one per core at a time.

Processes are forked, so that a trace of millions of jobs is shared and not copied; this requires a caller without threads. A
child that fails ends all others, and so does Ctrl-C; a child whose parent has ended ends itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from tiresias.errors import TiresiasError

Result = TypeVar("Result")
ReportProgress = Callable[[int], None]  # called with the part of a task that is done, in the task's units


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def run_all(
    tasks: Mapping[str, Callable[[ReportProgress], Result]],
    progress: Callable[[str, int], None] = lambda name, done: None,
) -> dict[str, Result]:
    """Run all tasks.

    Args:
        tasks: The tasks by name.
        progress: Called with the name of a task and the part of it that is done.

    Returns:
        The result of each task, in the order of `tasks`.

    Raises:
        TiresiasError: That of the first task that fails.
    """
    waiting = list(tasks.items())
    results: dict[str, Result] = {}
    children: dict[Connection, _Child[Result]] = {}
    try:
        while waiting or children:
            while waiting and len(children) < cores():
                child = _Child.begin(*waiting.pop(0))
                children[child.pipe] = child
            for child in [children[pipe] for pipe in wait(list(children)) if isinstance(pipe, Connection)]:
                message = child.receive()
                if isinstance(message, _Done):
                    progress(child.name, message.much)
                else:
                    results[child.name] = message.result
                    children.pop(child.pipe).end()
    finally:
        for child in children.values():
            child.end()
    return {name: results[name] for name in tasks}


@dataclass(frozen=True, slots=True)
class _Done:
    much: int


@dataclass(frozen=True, slots=True)
class _Finished(Generic[Result]):
    result: Result


@dataclass(frozen=True, slots=True)
class _Child(Generic[Result]):
    name: str
    process: BaseProcess
    pipe: Connection

    @classmethod
    def begin(cls, name: str, task: Callable[[ReportProgress], Result]) -> _Child[Result]:
        fork = get_context("fork")
        receiver, sender = fork.Pipe(duplex=False)
        process = fork.Process(target=_work, args=(name, task, sender, os.getpid()), name=name, daemon=True)
        process.start()
        sender.close()  # so that the child's end of the pipe is the only one
        return cls(name, process, receiver)

    def receive(self) -> _Done | _Finished[Result]:
        try:
            message: _Done | _Finished[Result] | TiresiasError = self.pipe.recv()
        except EOFError:
            self.process.join()
            raise TiresiasError(f"{self.name}: {_death(self.process.exitcode)}") from None
        if isinstance(message, TiresiasError):
            raise message
        return message

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _death(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "the process was killed; was there too little memory? Simulate fewer policies at once (taskset -c 0)"
    return f"the process ended with exit code {code}; this is an error in the simulator, please report it"


def _work(name: str, task: Callable[[ReportProgress], Result], pipe: Connection, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its children

    def report(much: int) -> None:
        if os.getppid() != parent:
            os._exit(1)
        pipe.send(_Done(much))

    try:
        pipe.send(_Finished(task(report)))
    except TiresiasError as error:
        pipe.send(error)
    except MemoryError:
        pipe.send(TiresiasError(f"{name}: not enough memory"))
