"""The implementations of a stage by name: built-in ones, and those of installed packages.

A package registers an implementation as an entry point, for example in its pyproject.toml:

    [project.entry-points."tiresias.policies"]
    latest_first = "acme_policies:LatestFirst"

Built-in implementations have the same form, `module:attribute`, one line each. Both are imported when they are first used. The
entry points of all packages are read once, when a name is looked up for the first time. Standard library only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tiresias.scheduler.plugin import PluginError, guarded

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

IMPORT_TIMEOUT_S = 20.0

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from name to implementation. Names of installed packages come after the built-in ones.

    Attributes:
        group: The entry-point group that packages register in.
        built_in: The name and the place, `module:attribute`, of each built-in implementation.
    """

    def __init__(self, group: str, built_in: Mapping[str, str], accept: str = "") -> None:
        """`accept`: the place of a function that is called with the name, the package and the registered object of a plug-in. It
        returns the implementation, or raises PluginError. None: the object is the implementation."""
        self.group, self.built_in, self._accept = group, built_in, accept
        self._loaded: dict[str, T] = {}

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from sorted({point.name for point in _points(self.group)} - set(self.built_in))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or any(point.name == name for point in _points(self.group))

    def __getitem__(self, name: str) -> T:
        """The implementation. Raises KeyError for an unknown name, PluginError where a package is at fault."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def is_plugin(self, name: str) -> bool:
        """Whether an installed package registers the name, and no built-in implementation has it."""
        return name not in self.built_in and name in self

    def plugins(self) -> dict[str, str]:
        """The package of each name that an installed package registers."""
        return {point.name: _package(point) for point in _points(self.group)}

    def problems(self) -> list[str]:
        """One line for each implementation of an installed package that cannot be used. Imports all of them."""
        found = []
        for name in sorted(self.plugins()):
            try:
                self._load(name)
            except PluginError as error:
                found.append(str(error))
        return found

    def _load(self, name: str) -> T:
        points = [point for point in _points(self.group) if point.name == name]
        if points and (name in self.built_in or len(points) > 1):
            other = "is built in" if name in self.built_in else f"is registered by package {_package(points[0])} too"
            raise PluginError(self.group, name, _package(points[-1]), f"the name {other}")
        if name in self.built_in:
            built_in: T = _attribute(self.built_in[name])
            return built_in
        if not points:
            raise KeyError(name)
        return self._imported(points[0])

    def _imported(self, point: EntryPoint) -> T:
        package = _package(point)
        found = guarded(self.group, point.name, package, IMPORT_TIMEOUT_S, "its import", point.load)
        if not self._accept:
            implementation: T = found
            return implementation
        accepted: T = _attribute(self._accept)(point.name, package, found)
        return accepted


def _attribute(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value.partition(":")[0]


def _points(group: str) -> tuple[EntryPoint, ...]:
    return tuple(installed().select(group=group))


@functools.cache
def installed() -> Any:
    """The entry points of all installed packages. `installed.cache_clear()` makes the next use read them again."""
    from importlib.metadata import entry_points  # takes as long to import as all else that `tiresias status` needs

    return entry_points()
