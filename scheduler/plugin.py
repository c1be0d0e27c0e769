"""Implementations of installed packages: each call has a time limit, and each failure is a `PluginError` in one line.

Standard library only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from tiresias.errors import UsageError

CALL_TIMEOUT_S = 5.0

Result = TypeVar("Result")


class PluginError(UsageError):
    """An implementation of an installed package cannot be used. The message is one line.

    Attributes:
        group: The entry-point group, such as `tiresias.policies`.
        name: The name that the package registers.
    """

    def __init__(self, group: str, name: str, package: str, problem: str) -> None:
        super().__init__(group, name, package, problem)  # so that the simulator's processes can send it
        self.group, self.name = group, name
        kind = group.removeprefix("tiresias.")
        self._line = f"{kind}: {name!r} of package {package}: {problem}; fix or uninstall that package"

    def __str__(self) -> str:
        return self._line


@dataclass(frozen=True, slots=True)
class Plugin:
    """What a package registers.

    Attributes:
        group: The entry-point group.
        name: The name in that group.
        package: The package.
        found: The registered object.
    """

    group: str
    name: str
    package: str
    found: Any

    def instance(self, method: str) -> Plugin:
        """Return the plug-in with an object that has `method`; a class is called without arguments.

        Raises:
            PluginError: The class cannot be called, or the object has no such method.
        """
        found = self.found
        if isinstance(found, type):
            found = self.guarded(f"{found.__name__}()", found)
        if not callable(getattr(found, method, None)):
            raise self.error(f"it has no method {method}")
        return Plugin(self.group, self.name, self.package, found)

    def call(self, method: str, *args: Any) -> Any:
        """Return the result of a method. Raises PluginError where it fails or exceeds the time limit."""
        return self.guarded(f"{method}()", lambda: getattr(self.found, method)(*args))

    def guarded(self, what: str, call: Callable[[], Result]) -> Result:
        """Return the result of `call`, which `what` names in errors. Raises PluginError as `call` of this class."""
        return guarded(self.group, self.name, self.package, CALL_TIMEOUT_S, what, call)

    def error(self, problem: str) -> PluginError:
        """Return the error of a wrong result."""
        return PluginError(self.group, self.name, self.package, one_line(problem))


def guarded(group: str, name: str, package: str, limit_s: float, what: str, call: Callable[[], Result]) -> Result:
    """Return the result of `call`, which is made in another thread.

    Raises:
        PluginError: It raises, or does not return within `limit_s` seconds. Then it continues in its thread, which does not keep
            the process alive.
    """
    worker = _idle.pop() if _idle else _Worker()
    try:
        result, error = worker.run(call, limit_s)
    except Empty:
        raise PluginError(group, name, package, f"{what} took over {limit_s:g} s") from None
    _idle.append(worker)
    if isinstance(error, PluginError):
        raise error
    if error is not None:  # also SystemExit, which a plug-in must not end the controller with
        problem = one_line(f"{what} failed: {type(error).__name__}: {error}")
        raise PluginError(group, name, package, problem) from error
    return cast("Result", result)


class _Worker:
    """A thread that makes one call after the other: to start a thread for each call takes several times as long."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        self._results: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name="plug-in").start()

    def run(self, call: Callable[[], Any], limit_s: float) -> tuple[Any, BaseException | None]:
        """Return the result, or the error. Raises queue.Empty after `limit_s` seconds; the worker is of no use then."""
        self._calls.put(call)
        return self._results.get(timeout=limit_s)

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            try:
                self._results.put((call(), None))
            except BaseException as error:
                self._results.put((None, error))
            del call


_idle: list[_Worker] = []
os.register_at_fork(after_in_child=_idle.clear)  # threads do not survive a fork


def one_line(text: str) -> str:
    """Return the text of a package's error, short enough for a message."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:299] + "…"
