"""A process that dies, or a disk that fails, at every single call of a save and of a restore: nothing is ever lost or wrong.

What is on disk changes only at these calls, so a kill between two of them is a kill at the second.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import Store

KILL, TORN = -1, -2  # fault.c
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.ESTALE)
SAVES = ("save", "async_save", "ranks")
# `make test` has kills in each kind of save, and errors that pass in one of them.
SHORT = [("async_save", False)]
ERRORS_IN_SAVES = [
    pytest.param(case, lasting, marks=[] if (case, lasting) in SHORT else [pytest.mark.long])
    for case in SAVES
    for lasting in (False, True)
]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", SAVES, indirect=True)
def test_killed_at_every_call_of_a_save(case: Any) -> None:
    killed = 0
    for action in (KILL, TORN):
        for point in case.points():
            outcome = case.run(point, action)
            killed += outcome.killed
            case.check(30 if outcome.saved else 20)
    print(f"{killed} kills")
    assert killed > 100, "this test showed little"


@pytest.mark.parametrize(("case", "lasting"), ERRORS_IN_SAVES, indirect=["case"])
def test_an_error_at_every_call_of_a_save(case: Any, lasting: bool) -> None:
    refused = 0
    for number in ERRORS:
        for point in case.points():
            outcome = case.run(point, number, lasting)
            assert outcome.saved or str(case.root) in outcome.message, outcome
            refused += outcome.refused
            case.check(30 if outcome.saved else 20)
    print(f"{refused} saves refused")
    assert refused > 100, "this test showed little"


@pytest.mark.parametrize("case", ["restore"], indirect=True)
def test_killed_at_every_call_of_a_restore(case: Any) -> None:
    """Its newest checkpoint is damaged, so that it is set aside on the way."""
    (case.before / "step-30").mkdir()
    killed = 0
    for point in case.points():
        killed += case.run(point).killed
        found = Store(case.root).restore()
        assert found is not None
        assert found.step == 20
        assert dict(found.state) == case.expected(20)
    print(f"{killed} kills")
    assert killed > 30, "this test showed little"


@pytest.mark.parametrize("lasting", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.parametrize("case", ["restore"], indirect=True)
def test_an_error_at_every_call_of_a_restore(case: Any, lasting: bool) -> None:
    """It returns the newest or raises the reason; never an older one, never nothing (the program checks it)."""
    refused = 0
    for number in ERRORS:
        for point in case.points():
            outcome = case.run(point, number, lasting)
            assert outcome.saved or str(case.root) in outcome.message, outcome
            refused += outcome.refused
            assert not Store(case.root).set_aside()
    print(f"{refused} restores refused")
    assert refused > 30, "this test showed little"


@pytest.mark.parametrize("case", SAVES, indirect=True)
def test_all_is_on_disk_before_it_counts(case: Any, tmp_path: Path) -> None:
    """What a power cut would take: the commit comes after the sync of all that it names, and is synced itself."""
    case.injector.run(case.before, log=tmp_path / "calls")
    calls = [tuple(line.split(" ", 1)) for line in (tmp_path / "calls").read_text().splitlines()]
    commit = next(
        index
        for index, (call, path) in enumerate(calls)
        if call == "rename" and "/.step-30" in path[-40:] and "/" not in path.partition("/.step-30")[2]
    )
    dirty: set[str] = set()
    for call, path in calls[:commit]:
        if call == "write":
            dirty.add(path)
        elif call == "fsync":
            dirty.discard(path)
        elif call in ("create", "rename"):
            assert path not in dirty or call == "create"
            dirty.add(str(Path(path).parent))
    assert {path for path in dirty if "/.step-30" in path} == set()
    assert ("fsync", str(case.before)) in calls[commit:]
