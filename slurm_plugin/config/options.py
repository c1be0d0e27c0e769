"""The options by their dotted keys, as the sections declare them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_type_hints

from tiresias.protocol import environment
from tiresias.slurm_plugin.config.sections import SECTIONS

if TYPE_CHECKING:
    from tiresias.scheduler.registry import Registry


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option. `section` is "" at the top level."""

    section: str
    name: str
    kind: Any
    default: Any
    doc: str
    allowed: str
    check: Callable[[Any], bool]
    names: Callable[[], Registry[Any]] | None = None

    def allowed_now(self) -> str:
        """Return the allowed values, with the names that installed packages register."""
        return ", ".join([self.allowed, *(self.names().plugins() if self.names else ())])

    @property
    def key(self) -> str:
        """The dotted key."""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def variable(self) -> str:
        """The environment variable."""
        return environment.of_option(self.key)


def options() -> dict[str, Option]:
    """Return all options by dotted key, in the order of their declaration."""
    return {option.key: option for section in SECTIONS for option in declared(section)}


def declared(section: str) -> Iterator[Option]:
    """Yield the options of one section."""
    owner = SECTIONS[section]()
    kinds = get_type_hints(owner, localns={"PolicyConfig": object, "VirtualClusterConfig": object})
    for each in fields(owner):
        if (section or each.name not in SECTIONS) and "tables" not in each.metadata:
            yield Option(section, each.name, kinds[each.name], each.default, **each.metadata)
