"""Which version of the control protocol two sides use, whose statement is trusted, and the files of version 1."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.users import ALICE, DAEMON, MALLORY, as_user
from tiresias.protocol import control, versions
from tiresias.protocol.control import JobReport
from tiresias.protocol.versions import OWN, UNSTATED, Versions

RECORDED = (
    Path(__file__).with_name("recorded") / "version-1.json"
)  # written by the supervisor and the program of commit d6b22a3
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
)


def ranges() -> st.SearchStrategy[Versions]:
    return st.tuples(st.integers(1, 9), st.integers(1, 9)).map(lambda pair: Versions(min(pair), max(pair)))


@given(ranges(), ranges())
def test_the_newest_that_both_speak(one: Versions, other: Versions) -> None:
    both = {*range(one.oldest, one.newest + 1)} & {*range(other.oldest, other.newest + 1)}
    assert versions.common(one, other) == versions.common(other, one) == max(both, default=0)


@given(ranges(), ranges())
def test_a_refusal_names_the_older_side(own: Versions, other: Versions) -> None:
    words = versions.refusal("the other", other, "the reader", own)
    assert bool(words) == (versions.common(own, other) == 0)
    assert "\n" not in words
    if words:
        assert words.endswith("update the other" if other.newest < own.oldest else "update the reader")


@given(ranges())
def test_what_is_stated_is_read(one: Versions) -> None:
    assert versions.stated(json.loads(json.dumps({versions.KEY: one}))) == one


@given(JSON)
def test_anything_else_reads_as_a_possible_range(value: Any) -> None:
    found = versions.stated({versions.KEY: value})
    assert 0 < found.oldest <= found.newest <= versions.LARGEST


def put(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("state", "restart", "report"),
    [
        ("running", 0, {"state": "running", "ready": True, "step": 20, "at": 20, "resumed": 0, "save": 0.034}),
        ("parked", 0, {"state": "parked", "ready": True, "step": 22, "at": 22, "resumed": 0, "save": 0.036}),
        (
            "resumed",
            1,
            {"state": "running", "ready": True, "step": 22, "at": 23, "resumed": 22, "save": None, "redone": 0},
        ),
    ],
)
def test_files_of_version_1(tmp_path: Path, state: str, restart: int, report: dict[str, object]) -> None:
    recorded = json.loads(RECORDED.read_text())[state]
    put(tmp_path / str(os.getuid()) / "7", **{name.removesuffix(".json"): one for name, one in recorded.items()})
    found = control.report(tmp_path, os.getuid(), "7")
    assert (found.restart, found.protocol, found.refused) == (restart, 1, "")
    assert {name: getattr(found, name) for name in report} == report
    assert found.restore == pytest.approx(0.4, abs=0.2)


@pytest.mark.parametrize("side", ["supervisor", "program"])
def test_a_side_without_a_common_version_is_never_ready(tmp_path: Path, side: str) -> None:
    files: dict[str, dict[str, object]] = {
        "supervisor": {"restart": 0, "state": "running", versions.KEY: OWN},
        "program": {"restart": 0, "ready": True, versions.KEY: OWN},
    }
    put(tmp_path / str(os.getuid()) / "7", **files)
    assert control.report(tmp_path, os.getuid(), "7").ready
    files[side][versions.KEY] = [8, 9]
    put(tmp_path / str(os.getuid()) / "7", **files)
    found = control.report(tmp_path, os.getuid(), "7")
    assert not found.ready
    assert (
        "speaks version 8 to 9 of the control protocol, this controller 1 to 2: update this controller" in found.refused
    )


def test_the_file_of_an_earlier_run_refuses_nothing(tmp_path: Path) -> None:
    put(tmp_path / str(os.getuid()) / "7", supervisor={"restart": 1}, program={"restart": 0, versions.KEY: [8, 9]})
    assert control.report(tmp_path, os.getuid(), "7") == JobReport(restart=1)


# -- whose statement for the controller is trusted ------------------------------------------------------------------------


def test_nothing_stated_is_version_1(tmp_path: Path) -> None:
    assert control.of_controller(tmp_path) == UNSTATED
    assert control.of_controller(tmp_path / "missing") == UNSTATED


def test_a_controller_states_its_versions(tmp_path: Path) -> None:
    for _ in range(2):  # it starts again
        control.state_controller(tmp_path)
        assert control.of_controller(tmp_path) == OWN
    assert json.loads((tmp_path / "controller/protocol.json").read_text()) == {"protocol": [1, 2]}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of several users: run as root")
@pytest.mark.parametrize(
    ("writer", "mode", "owner", "trusted"),
    [
        (MALLORY, 0o1777, 0, False),
        (MALLORY, 0o777, ALICE, False),
        (DAEMON, 0o1777, DAEMON, True),  # the control root is the controller's
        (999, 0o1777, 0, True),  # a system account
        (0, 0o1777, 0, True),
    ],
)
def test_a_user_does_not_speak_for_the_controller(
    tmp_path: Path, writer: int, mode: int, owner: int, trusted: bool
) -> None:
    for folder in (tmp_path, *(one for one in tmp_path.parents if one.name.startswith(("pytest-", "popen-")))):
        folder.chmod(0o755)
    root = tmp_path / "control"
    root.mkdir()
    os.chown(root, owner, -1)
    root.chmod(mode)

    def write() -> str:
        put(root / "controller", protocol={versions.KEY: [9, 9]})
        (root / "controller").chmod(0o755)
        (root / "controller/protocol.json").chmod(0o644)
        return "written"

    assert as_user(writer, write) == "written"
    assert as_user(ALICE, lambda: control.of_controller(root)) == str(Versions(9, 9) if trusted else UNSTATED)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of several users: run as root")
def test_where_only_admins_write_any_owner_is_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    control.state_controller(tmp_path)
    for path in (tmp_path / "controller", tmp_path / "controller/protocol.json"):
        os.chown(path, DAEMON, -1)
    assert control.of_controller(tmp_path) == OWN
