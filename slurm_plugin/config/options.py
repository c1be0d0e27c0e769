"""The options by their dotted keys, as the sections declare them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_type_hints

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
        """What is allowed, with the names that installed packages register."""
        return ", ".join([self.allowed, *(self.names().plugins() if self.names else ())])

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def variable(self) -> str:
        return "TIRESIAS_" + self.key.upper().replace(".", "_")


def options() -> dict[str, Option]:
    """All options by their dotted key, in the order of their declaration."""
    return {option.key: option for section in SECTIONS for option in declared(section)}


def declared(section: str) -> Iterator[Option]:
    owner = SECTIONS[section]()
    kinds = get_type_hints(owner, localns={"PolicyConfig": object})
    for each in fields(owner):
        if (section or each.name not in SECTIONS) and "tables" not in each.metadata:
            yield Option(section, each.name, kinds[each.name], each.default, **each.metadata)
