"""Whatever a user writes into a report of a job, the controller reads possible values."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.protocol import control
from tiresias.protocol.job_kind import hash_of_script

FIELDS = [
    "restart",
    "state",
    "step",
    "why",
    "began",
    "reached",
    "ready",
    "requeue",
    "save",
    "resumed",
    "ready_at",
    "at",
    "pace",
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.just(10**4000)
    | st.sampled_from([0, 1, 1e308, 10**15]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
LIES = st.dictionaries(st.sampled_from(FIELDS), VALUES)


@given(LIES, LIES)
def test_every_report_reads_as_possible_values(
    tmp_path_factory: pytest.TempPathFactory, supervisor: dict[str, object], program: dict[str, object]
) -> None:
    root = tmp_path_factory.getbasetemp() / "lies"
    folder = control.job_folder(root, os.getuid(), "77")
    folder.mkdir(parents=True, exist_ok=True)
    control.write(folder, control.SUPERVISOR, {"restart": 0} | supervisor)
    control.write(folder, control.PROGRAM, {"restart": 0} | program)
    output = control.report(root, os.getuid(), "77")
    for count in (output.restart, output.step, output.at, output.resumed):
        assert type(count) is int
        assert -1 <= count < control.MOST
    for seconds in (output.save, output.restore, output.pace):
        assert seconds is None or 0 <= seconds <= control.LONGEST
    assert output.script == hash_of_script(output.script)
    assert output.redone is None or 0 <= output.redone < control.MOST
    assert isinstance(output.ready, bool)
    assert isinstance(output.state, str)
    json.dumps(output, allow_nan=False)
