"""Any file that is given as a trace is read as a Trace or reported in one line, in each format."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.errors import UsageError
from tiresias.simulator.formats import FORMATS
from tiresias.simulator.formats.own import OPTIONAL, REQUIRED
from tiresias.simulator.trace import read_trace

pytestmark = pytest.mark.filterwarnings("error")  # a warning on standard error would be one line more

HEADER = ",".join(REQUIRED)
TEXTS = st.text('019.,-+e\n\r"|_ jobgpunidrt\0\u00e9', max_size=60)
HEADS = st.sampled_from(["", f"{HEADER}\n", "JobID|Submit|State|AllocTRES|ElapsedRaw\n", "[", '{"jobs": [', '[{"attempts": ',
                         "job_id,num_gpu,submit_time,model_name,duration\n", "a,b,1,Failed,1,2,3,4,5,T4\n",
                         "name,num_gpu,gpu_milli,qos,pod_phase,creation_time,scheduled_time,deletion_time\n"])  # fmt: skip


def trace_or_one_line(file: Path, format: str = "auto") -> None:
    try:
        trace = read_trace(file, format=format)
    except UsageError as error:
        line = str(error)
    else:
        line = ""
        assert len(trace) > 0
        assert np.isfinite(trace.submit).all()
        assert (trace.gpus >= 1).all()
        assert (trace.duration >= 0).all()
        assert np.isfinite(trace.duration).all()
    assert not line or line.startswith(f"{file}: ")
    assert "\n" not in line


@given(content=st.one_of(st.binary(max_size=200), st.builds(lambda *parts: "".join(parts).encode(), HEADS, TEXTS)))
@settings(max_examples=examples(400), deadline=None)
def test_any_bytes_are_a_trace_or_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(content)
    trace_or_one_line(file)


@given(content=TEXTS, format=st.sampled_from(sorted(FORMATS)), packed=st.booleans())
@settings(max_examples=examples(300), deadline=None)
def test_any_text_is_a_trace_or_one_line_in_any_format(
    tmp_path_factory: pytest.TempPathFactory, content: str, format: str, packed: bool
) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    trace_or_one_line(file, format)


USUAL = [
    "", "None", "nan", "inf", "-1", "0", "1", "8", "1e15", "2017-10-07 01:12:09", "0001-01-01T00:00:00+23:59", "COMPLETED",
    "gres/gpu=4", "gres/gpu:a=9", "12_3", "12_[1-4]", "12+1", "12.batch",
]  # fmt: skip
CELLS = st.one_of(st.sampled_from(USUAL), TEXTS.map(lambda text: text.replace("\0", "")))  # Python 3.10 writes no NUL


@given(data=st.data(), format=st.sampled_from(sorted(set(FORMATS) - {"philly", "sacct-json"})))
@settings(max_examples=examples(300), deadline=None)
def test_any_cells_are_a_trace_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, format: str
) -> None:
    """Tables with the right header, so that the cells are reached."""
    columns = {
        "csv": REQUIRED + OPTIONAL,
        "helios": ("job_id", "user", "vc", "gpu_num", "state", "submit_time", "start_time", "end_time"),
        "acme": ("job_id", "user", "type", "gpu_num", "state", "submit_time", "start_time", "end_time", "gpu_time"),
        "symbioticlab": ("job_id", "num_gpu", "submit_time", "model_name", "duration"),
        "openb": (
            "name",
            "num_gpu",
            "gpu_milli",
            "qos",
            "pod_phase",
            "creation_time",
            "scheduled_time",
            "deletion_time",
        ),
        "pai": ("job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_gpu"),
        "sacct": ("JobID", "Submit", "State", "ElapsedRaw", "AllocTRES", "User"),
    }[format]
    rows = data.draw(st.lists(st.tuples(*[CELLS] * len(columns)), max_size=4))
    text = io.StringIO()
    lines = csv.writer(text, delimiter="|") if format == "sacct" else csv.writer(text)
    lines.writerows([columns, *rows])
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_text(text.getvalue(), newline="")
    trace_or_one_line(file, format)


KEYS = st.sampled_from([
    "jobid", "attempts", "start_time", "end_time", "detail", "gpus", "submitted_time", "user", "job_id", "array", "task_id",
    "het", "job_offset", "state", "current", "time", "submission", "elapsed", "tres", "allocated", "requested", "type", "name",
    "count", "set", "number",
])  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 9), st.integers(), st.floats(), st.sampled_from(["gres", "gpu", *USUAL])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=25,
)


@given(
    jobs=st.lists(st.dictionaries(KEYS, VALUES, max_size=8), max_size=3),
    format=st.sampled_from(["philly", "sacct-json"]),
)
@settings(max_examples=examples(300), deadline=None)
def test_any_json_is_a_trace_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[dict[str, Any]], format: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_text(json.dumps({"jobs": jobs} if format == "sacct-json" else jobs))
    trace_or_one_line(file, format)
