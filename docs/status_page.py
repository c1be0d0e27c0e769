"""Writes the page of the control socket's answers from their types in protocol/."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from tiresias.protocol.explanation import ArrayExplanation, Explanation
from tiresias.protocol.published_cells import Cells
from tiresias.protocol.published_job import HistoryPage, PublishedPastJobWithRuns
from tiresias.protocol.published_progress import PublishedProgress
from tiresias.protocol.service_report import ServiceJobs, ServiceReport
from tiresias.protocol.status import Status
from tiresias.protocol.status_version import VERSION

ANSWERS: dict[str, tuple[Any, ...]] = {
    '`{"op": "status"}`': (Status,),
    '`{"op": "explain", "job": "12"}`': (Explanation, ArrayExplanation),
    '`{"op": "progress", "job": "12"}`': (PublishedProgress,),
    '`{"op": "history"}`': (HistoryPage, PublishedPastJobWithRuns),
    '`{"op": "cells"}`': (Cells,),
    "`report.json` of the parameter service": (ServiceReport,),
    "`jobs.json` and `users/UID.json` of the parameter service": (ServiceJobs,),
}
NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "null"}
HEAD = f"""# Answers of the control socket

[Interfaces](../reference/interfaces.md) describes the requests. An answer is one JSON object, of format version {VERSION}.
A request that cannot be answered gets `{{"error": "one line"}}`. Moments are epoch seconds, durations seconds, service
GPU-seconds. A missing key and null: not known. `tiresias status --json` and `explain --json` print the same objects.
The last ones are no answers but files, which the manager of the
[parameter service](../how-to/parameter-service.md#watch-the-service) writes.
"""


def lines() -> Iterator[str]:
    """Yield the page in Markdown: a section for each answer, a table for each kind of object."""
    yield HEAD
    known: list[Any] = []
    for request, kinds in ANSWERS.items():
        yield f"\n## {request}"
        for kind in _with_parts(kinds, known):
            yield f"\n### {_title(kind)}\n\n{inspect.getdoc(kind)}\n\n| key | value | meaning |\n|---|---|---|"
            yield from _rows(kind)


def _with_parts(kinds: tuple[Any, ...], known: list[Any]) -> list[Any]:
    """Return the kinds and, after them, the kinds of their values that no section has shown yet."""
    todo, found = list(kinds), []
    while todo:
        kind = todo.pop(0)
        if kind not in known:
            known.append(kind)
            found.append(kind)
            todo += [part for hint in get_type_hints(kind).values() for part in _objects(hint)]
    return found


def _rows(kind: Any) -> Iterator[str]:
    for key, hint in get_type_hints(kind, include_extras=True).items():
        value, *meaning = get_args(hint) if get_origin(hint) is Annotated else (hint, "")
        yield f"| `{key}` | {_value(value)} | {meaning[0]} |"


def _objects(hint: Any) -> list[Any]:
    return [
        part
        for one in (get_args(hint) or (hint,))
        for part in (_objects(one) if get_args(one) else [one])
        if _is_object(part)
    ]


def _is_object(kind: Any) -> bool:
    return hasattr(kind, "__total__")


def _value(hint: Any) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_value, parts))
    if origin is list:
        return f"list of {_value(parts[0])}"
    if origin is tuple:
        return f"[{', '.join(map(_value, parts))}]"
    if origin is dict:
        return f"object: {_value(parts[1])} by name"
    return f"[{_title(hint)}](#{_title(hint).lower().replace(' ', '-')})" if _is_object(hint) else NAMES[hint]


def _title(kind: Any) -> str:
    """PublishedPastJob: Past job."""
    name = kind.__name__.removeprefix("Published")
    return "".join(f" {letter.lower()}" if letter.isupper() and at else letter for at, letter in enumerate(name))
