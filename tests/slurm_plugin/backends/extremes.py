"""Records with extreme values in any field, in the shapes of Slurm 22.05, 24.11 and 26.05 and of the pyslurm worker's rows."""

from __future__ import annotations

import ast
import copy
import json
import math
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tiresias.slurm_plugin.backends import pyslurm
from tiresias.slurm_plugin.backends.parse import number

DATA = sorted(Path(__file__).with_name("data").glob("slurm-*.json"))
VERSIONS = tuple(path.stem.removeprefix("slurm-") for path in DATA)
Key = str | int
Location = tuple[Key, ...]
FIRST_ID = 1_000_000  # of extreme records: the captured ones are below

INTEGERS = (
    0, 1, -1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, -(2**63), 10**30,
)  # fmt: skip
NUMBERS = (*INTEGERS, math.nan, math.inf, -math.inf, 1e308, -0.0, 0.5)
TEXTS = (
    "", "\x00", "\ud800", "²", "x" * 70_000, "9" * 5000, "gpu", "gpu:18446744073709551615", "gres/gpu=18446744073709551614",
    "gres:gpu:v100:" + "9" * 5000, "gpu:4(IDX:0-999999999)", "gpu:v100:2(IDX:5-1,18446744073709551615)", "0-4000000000",
    "0-4000000000%1", "1-9:0,7%99999999999999999999", "n[1-99999999999]", "n[0-99999][0-99999][0-99999]", "n[2-1]", "n[²]",
    f"n[{'0' * 60_000}1-9]", "[" * 1000, "gpu[01-04]," * 6000, "5-6,0-", "gpu:-1", "gpu:1e9", "(((", "RUNNING", "COMPLETING",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None, True, [], {}, [None], ["COMPLETING"], ["RUNNING", "COMPLETING"], ["PENDING"], [2**64], {"set": True}, {"number": 2**64},
    *({"set": True, "infinite": False, "number": one} for one in NUMBERS), {"set": True, "infinite": True, "number": 2**64 - 1},
)  # fmt: skip
VALUES: tuple[Any, ...] = (*NUMBERS, *TEXTS, *OTHERS)
MISSING = object()


@cache
def captured(version: str) -> dict[str, Any]:
    """What a real Slurm of that version printed: time, jobs, nodes."""
    found: dict[str, Any] = json.loads(DATA[VERSIONS.index(version)].read_text())
    return found


@cache
def row_fields() -> tuple[str, ...]:
    """Of the pyslurm worker's rows. It is read from its source, because it imports pyslurm."""
    source = Path(pyslurm.__file__).with_name("pyslurm_worker.py").read_text()
    found = next(one for one in ast.parse(source).body if isinstance(one, ast.Assign) and one.targets[0].id == "FIELDS")  # type: ignore[attr-defined]
    return tuple(ast.literal_eval(found.value))


def row(record: dict[str, Any]) -> dict[str, Any]:
    """The record as the pyslurm worker would send it."""
    found = {field: _plain(record.get(field)) for field in row_fields()}
    state = record.get("job_state")
    return found | {
        "job_state": state if isinstance(state, list) else [state],
        "dependency": bool(record.get("dependency")),
        "exit_code": number(found["exit_code"]),
        "tres_per_node": record.get("tres_per_node") or "gpu:1",
    }


def _plain(value: Any) -> Any:
    return number(value) if isinstance(value, dict) and "number" in value else value


def fresh(record: dict[str, Any], job_id: int) -> dict[str, Any]:
    """A copy under an id of its own."""
    made = copy.deepcopy(record)
    for field in ("job_id", "array_job_id", "het_job_id"):
        old = made.get(field)
        if number(old) or (isinstance(old, int) and old):
            made[field] = {**old, "number": job_id} if isinstance(old, dict) else job_id
    return made


def locations(value: Any, at: Location = ()) -> Iterator[Location]:
    """Of everything inside a record."""
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from locations(one, (*at, key))


def put(record: Any, at: Location, value: Any) -> None:
    """Where an earlier change has left something to change."""
    *above, last = at
    try:
        for key in above:
            record = record[key]
        if value is MISSING:
            del record[last]
        else:
            record[last] = copy.deepcopy(value)
    except (LookupError, TypeError):
        pass


def extreme(rng: random.Random, base: dict[str, Any], most: int) -> dict[str, Any]:
    """The record with up to `most` of its values changed."""
    made = copy.deepcopy(base)
    places = list(locations(base))
    fields = [(key,) for key in base]
    for _ in range(rng.randint(1, most)):
        put(made, rng.choice(fields if rng.random() < 0.7 else places), value(rng))
    return made


def value(rng: random.Random) -> Any:
    chosen = rng.random()
    if chosen < 0.05:
        return MISSING
    if chosen < 0.4:
        drawn = rng.getrandbits(64) * rng.choice((1, 1, 1, -1))
        return rng.choice(
            (drawn, {"set": True, "infinite": False, "number": drawn}, f"gpu:{drawn}", f"gres/gpu={drawn}")
        )
    return rng.choice(VALUES)
