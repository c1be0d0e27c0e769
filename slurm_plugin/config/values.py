"""A value as it was found in a file, the environment or the command line, and its conversion to the option's type."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from tiresias.errors import UsageError
from tiresias.slurm_plugin.config.options import Option


@dataclass(frozen=True, slots=True)
class RawValue:
    """A value as it was found. `text`: it was given as text, whatever its type."""

    value: object
    source: str
    text: bool = False


def convert(option: Option, raw: RawValue) -> Any:
    """Return the value as the option's type. Raises UsageError where it is not allowed."""
    try:
        value = (_parsed if raw.text else _typed)(option.kind, raw.value)
        if option.check(value):
            return value
    except (TypeError, ValueError, OverflowError):
        pass
    raise UsageError(f"{raw.source}: {option.key} = {quoted_value(raw.value)}: allowed: {option.allowed_now()}")


def _typed(kind: Any, value: object) -> Any:
    """`value` as TOML gave it, as `kind`. Raises TypeError or ValueError."""
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError
        return tuple(_typed(get_args(kind)[0], each) for each in value)
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind or value != value:  # NaN is refused
        raise TypeError
    return value


def _parsed(kind: Any, value: object) -> Any:
    """Text from the environment or the command line, as `kind`. Raises TypeError or ValueError."""
    text = str(value).strip()
    if get_origin(kind) is tuple:
        return tuple(_parsed(get_args(kind)[0], each) for each in text.split(",")) if text else ()
    return _typed(kind, kind(text))


def quoted_name(name: str) -> str:
    """Return a key or variable for a message; in quotation marks if it is long or not printable."""
    return name if name.isprintable() and len(name) <= 60 else quoted_value(name)


def quoted_value(value: object) -> str:
    """Return a value for a message, 60 characters at most."""
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else text[:59] + "…"
