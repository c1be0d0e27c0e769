"""The typed messages: dataclasses with a number each, as JSON objects in headers.

`@message(NUMBER)` registers a dataclass. Numbers below 10 are of every connection, from 10 to 63 of agents and aggregators, from 64
to 127 of the parameter service's manager, from 128 to 159 of remote memory. Fields are int (0 to 2^63-1), float, str, bool,
tuple[int, ...], tuple[str, ...], dict[str, float] or object (any JSON value).
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

from tiresias.services.wire.frames import BadFrame

MESSAGE_TYPES: dict[int, type[Any]] = {}
NUMBER_OF: dict[type[Any], int] = {}
_HINTS: dict[type[Any], dict[str, Any]] = {}
MAX_INT = 2**63 - 1
_ENCODER = json.JSONEncoder(separators=(",", ":"))
Kind = TypeVar("Kind", bound=type[Any])


def message(number: int) -> Callable[[Kind], Kind]:
    """Register a dataclass under a number from 1 to 255."""

    def register(kind: Kind) -> Kind:
        assert 0 < number < 256
        assert number not in MESSAGE_TYPES, f"message {number} is registered twice"
        MESSAGE_TYPES[number] = kind
        NUMBER_OF[kind] = number
        return kind

    return register


def encoded(content: Any) -> tuple[int, bytes]:
    """Return the number and the header of a message."""
    values = {name: getattr(content, name) for name in _hints(type(content))}
    return NUMBER_OF[type(content)], _ENCODER.encode(values).encode()


def decoded(number: int, header: bytes | bytearray | memoryview) -> Any:
    """Return the message of a frame.

    Raises:
        BadFrame: An unknown type, no JSON object, an unknown, missing or wrong field.
    """
    kind = MESSAGE_TYPES.get(number)
    if kind is None:
        raise BadFrame(f"a message of the unknown type {number}")
    values = _parsed(header)
    hints = _hints(kind)
    if not isinstance(values, dict) or values.keys() != hints.keys():
        raise BadFrame(f"{kind.__name__}: other fields than {', '.join(hints) or 'none'}")
    return kind(**{name: _checked(kind, name, hint, values[name]) for name, hint in hints.items()})


def _parsed(header: bytes | bytearray | memoryview) -> Any:
    try:
        return json.loads(str(header, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadFrame("a header that is no JSON") from error


def _hints(kind: type[Any]) -> dict[str, Any]:
    if kind not in _HINTS:
        hints = get_type_hints(kind)
        _HINTS[kind] = {each.name: hints[each.name] for each in fields(kind)}
    return _HINTS[kind]


def _checked(kind: type[Any], name: str, hint: Any, value: Any) -> Any:
    if hint is int and type(value) is int and 0 <= value <= MAX_INT:
        return value  # most fields
    found = _converted(hint, value)
    if found is NotImplemented:
        raise BadFrame(f"{kind.__name__}: {name} has a wrong type or is out of range")
    return found


def _converted(hint: Any, value: Any) -> Any:
    if hint is object:
        return value
    if isinstance(hint, types.GenericAlias):
        return _collection(hint, value)
    if hint is float and type(value) is int:
        value = float(value) if abs(value) <= MAX_INT else None
    if type(value) is not hint or (hint is int and not 0 <= value <= MAX_INT):
        return NotImplemented
    return value


def _collection(hint: types.GenericAlias, value: Any) -> Any:
    mapping = hint.__origin__ is dict
    if type(value) is not (dict if mapping else list):
        return NotImplemented
    inner = hint.__args__[1 if mapping else 0]
    found = [_converted(inner, each) for each in _members(value)]
    if any(each is NotImplemented for each in found):
        return NotImplemented
    return dict(zip(value, found, strict=True)) if mapping else tuple(found)


def _members(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value
