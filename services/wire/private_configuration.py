"""The configuration of a program that has a key: a JSON file of its user alone, whose values are checked as they are read.

values = read_values(path, KEYS)
with values.errors_named():
    slab_mib = values.whole("slab_mib", 64)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.services.wire.private_files import private_json

_MOST = 1 << 40


class ConfigurationValues:
    """The values of a file. Its methods raise ValueError with one line that names the key.

    Args:
        path: The file.
        content: What it contains.
    """

    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        self.path, self._content = path, content

    def __contains__(self, key: str) -> bool:
        return key in self._content

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Turn ValueError into a UsageError that names the file."""
        try:
            yield
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.path}: {error}") from error

    def value(self, key: str, default: Any = None) -> Any:
        """Return a value of any type; a missing one without a default is an error."""
        value = self._content.get(key, default)
        if value is None:
            raise ValueError(f"the key {key} is missing")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text."""
        value = self.value(key, default)
        if not isinstance(value, str):
            raise ValueError(f"{key} is no text")
        return value

    def filled_text(self, key: str, default: str | None = None) -> str:
        """Return a text that is not empty."""
        value = self.text(key, default)
        if not value:
            raise ValueError(f"{key} is empty")
        return value

    def texts(self, key: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        """Return a list of texts, none of them empty."""
        value = self.value(key, default)
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each for each in value):
            raise ValueError(f"{key} is no list of texts")
        return tuple(value)

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        """Return one of the allowed texts, by default the first one."""
        value = self.text(key, allowed[0])
        if value not in allowed:
            raise ValueError(f"{key} is {' or '.join(allowed)}")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false, the default."""
        value = self.value(key, False)
        if not isinstance(value, bool):
            raise ValueError(f"{key} is true or false")
        return value

    def whole(self, key: str, default: int | None = None, least: int = 1) -> int:
        """Return a whole number."""
        value = self.value(key, default)
        if type(value) is not int or not least <= value < _MOST:
            raise ValueError(f"{key} = {value!r}; give a whole number from {least} on")
        return value

    def seconds(self, key: str, default: float, least: float, most: float) -> float:
        """Return a time."""
        value = self.value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"{key} = {value!r}; give seconds from {least:g} to {most:g}")
        return float(value)


def read_values(path: Path, keys: Collection[str]) -> ConfigurationValues:
    """Read a configuration.

    Args:
        path: The file.
        keys: The allowed keys.

    Raises:
        UsageError: It cannot be read, others can read it, or it has another key; one line.
    """
    content = private_json(path)
    if unknown := content.keys() - set(keys):
        raise UsageError(f"{path}: unknown key {', '.join(sorted(unknown))}; allowed: {', '.join(keys)}")
    return ConfigurationValues(path, content)
