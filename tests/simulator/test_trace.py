"""Traces in Tiresias's CSV: columns, order, compression, and mistakes, each reported in one line."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.errors import UsageError
from tiresias.simulator.formats import FORMATS, table
from tiresias.simulator.formats.trace_file import LONGEST_LINE
from tiresias.simulator.trace import Trace, TraceJob, read_trace

pytestmark = pytest.mark.filterwarnings("error")  # a warning on standard error would be one line more

HEADER = "job_id,submit_time,num_gpus,duration"


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str | bytes, name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to_file


def test_reads_all_columns_in_any_order(write: Write) -> None:
    file = write("duration,job_id,user,submit_time,num_gpus,model\n10.5,a,u,3,2,vgg19\n\n1,b,,0,1.0,\n")
    assert read_trace(file).jobs() == [
        TraceJob("b", 0.0, 1, 1.0),
        TraceJob("a", 3.0, 2, 10.5, user="u", model="vgg19"),
    ]


def test_jobs_of_the_same_time_stand_in_natural_order(write: Write) -> None:
    file = write(f"{HEADER}\nj10,5,1,1\nj9,5,1,1\nm,0,1,1\na,5,1,1\n")
    assert read_trace(file).job_id == ("m", "a", "j9", "j10")


def test_gzip_by_content_and_excel_byte_order_mark(write: Write) -> None:
    text = f"{HEADER}\n1,0,1,1\n"
    assert len(read_trace(write(gzip.compress(text.encode()), "no-suffix"))) == 1
    assert len(read_trace(write("\ufeff" + text))) == 1


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("", "is empty"),
        (HEADER, "has no jobs"),
        ("job_id,submit_time,num_gpus\n1,0,1\n", "line 1: no column duration; add it"),
        (f"{HEADER},gpu_kind\n1,0,1,1,x\n", "line 1: unknown column 'gpu_kind'; rename or remove it"),
        (f"{HEADER},duration\n1,0,1,1,1\n", "line 1: a column occurs twice"),
        (f"{HEADER}\n1,0,1,1\n1,0,1,1\n", "line 3, column job_id: '1' was used on line 2 already"),
        (f"{HEADER}\n,0,1,1\n", "line 2, column job_id: '' is not possible"),
        (f"{HEADER}\n../../x,0,1,1\n", "line 2, column job_id: '../../x' is not possible"),
        (f"{HEADER}\n1,0,1,-5\n", "line 2, column duration: '-5' is not possible"),
        (f"{HEADER}\n1,0,1,nan\n", "line 2, column duration: 'nan' is not a number"),
        (f"{HEADER}\n1,0,1,inf\n", "line 2, column duration: 'inf' is not a number"),
        (f"{HEADER}\n1,0,1,\n", "line 2, column duration: '' is not a number"),
        (f"{HEADER}\n1,-1,1,1\n", "line 2, column submit_time: '-1' is not possible"),
        (f"{HEADER}\n1,0,two,1\n", "line 2, column num_gpus: 'two' is not a number"),
        (f"{HEADER}\n1,0,0,1\n", "line 2, column num_gpus: '0' is not possible"),
        (f"{HEADER}\n1,0,1.5,1\n", "line 2, column num_gpus: '1.5' is not possible"),
        (f"{HEADER}\n1,0,1\n", "line 2: 3 cells for 4 columns"),
        (f"{HEADER}\n1,0,1,1,1\n", "line 2: 5 cells for 4 columns"),
        (f"{HEADER}\n1,0,61,1\n", "job 1 asks for 61 GPUs and the cluster has 60; remove the job"),
        (b"\xff\xfe\x00\x01", "is no text"),
        (gzip.compress(f"{HEADER}\n1,0,1,1\n".encode(), mtime=0)[:-12], "cannot be read"),
        (b"\x1f\x8bgarbage", "cannot be read"),
        (f'{HEADER}\n"1,0,1,1\n' + "x" * 200_000, "is no CSV"),
        (f"{HEADER}\n" + "x" * (LONGEST_LINE + 10**6), "has a line of more than"),
        (gzip.compress(b"\0" * 10**7, mtime=0), "no known format begins with"),
        (gzip.compress(HEADER.encode() + b"\0" * 10**7, mtime=0), "has a line of more than"),
        (f"{HEADER}\n1,0,1e18,1\n", "line 2, column num_gpus: '1e18' is too large"),
        (f"{HEADER}\n1,1e300,1,1\n", "line 2, column submit_time: '1e300' is too large"),
        (f"{HEADER}\n1,0,1,1\n2,0,1,1\n\n3,x,1,1\n4,0,1,1\n", "line 5, column submit_time: 'x' is not a number"),
        ("hello\n", "no known format begins with 'hello'; begin with the header job_id,"),
        (b"\x7fELF\x02\x01\x01" + bytes(50) + b"\xf0\x28\x8c\x28", "is no text"),
    ],
)
def test_mistakes_are_one_line_that_names_the_place(write: Write, text: str | bytes, output: str) -> None:
    file = write(text)
    with pytest.raises(UsageError) as error:
        read_trace(file, gpus=60)
    assert output in str(error.value)
    assert str(error.value).startswith(f"{file}: ")
    assert "\n" not in str(error.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_trace(tmp_path / "none.csv")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_trace(tmp_path)


def test_a_file_that_the_system_refuses() -> None:
    with pytest.raises(UsageError, match="cannot be read: Input/output error"):
        read_trace(Path("/proc/self/mem"))  # opens, but its first page cannot be read, not even by root


def test_an_unknown_format_lists_the_known(write: Write) -> None:
    with pytest.raises(UsageError) as error:
        read_trace(write(f"{HEADER}\n1,0,1,1\n"), format="xlsx")
    assert str(error.value) == f"format 'xlsx': no such format; there are auto, {', '.join(FORMATS)}"


def test_a_format_can_be_named(write: Write) -> None:
    file = write("\n[]")
    with pytest.raises(UsageError, match="has no jobs"):
        read_trace(file, format="philly")
    with pytest.raises(UsageError, match="no column job_id"):
        read_trace(file, format="helios")


def test_a_hostile_cell_stays_on_one_line(write: Write) -> None:
    with pytest.raises(UsageError) as error:
        read_trace(write(f'{HEADER}\n1,0,1,"5\n\x1b[31m{"x" * 500}"\n'))
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)
    assert len(str(error.value)) < 300


def test_a_trace_is_columns() -> None:
    trace = Trace.of([TraceJob("j10", 5.0, 2, 7.5, "u"), TraceJob("j9", 5.0, 1, 1.0), TraceJob("x", 0.5, 4, 2.0)])
    assert len(trace) == 3
    assert trace.job_id == ("x", "j9", "j10")
    assert [str(column.dtype) for column in (trace.submit, trace.gpus, trace.duration)] == [
        "float64",
        "int64",
        "float64",
    ]
    assert (trace.submit.tolist(), trace.gpus.tolist(), trace.duration.tolist()) == (
        [0.5, 5, 5],
        [4, 1, 2],
        [2, 1, 7.5],
    )
    assert trace.user == ("", "", "u")
    assert trace.dropped == ()
    assert len(Trace.of([])) == 0


def test_numbers_as_ids_stand_in_natural_order() -> None:
    ids = ["10", "9", "009", "9_2", "9_10", "1"]
    for chosen in (ids, ids[:2], ids[:3]):
        expected = [name for name in ("1", "009", "9", "10", "9_2", "9_10") if name in chosen]
        trace = Trace.of(TraceJob(name, 0.0, 1, 1.0) for name in chosen)
        assert sorted(trace.job_id) == sorted(expected)
        assert trace.job_id == Trace.of(TraceJob(name, 0.0, 1, 1.0) for name in reversed(chosen)).job_id
        assert trace.job_id.index("9") < trace.job_id.index("10")


def test_the_place_is_right_in_every_piece(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "PIECE", 3)
    for bad in range(12):
        rows = [f"{row},0,{'x' if row == bad else 1},1\n" for row in range(12)]
        with pytest.raises(UsageError, match=rf"line {bad + 2}, column num_gpus: 'x'"):
            read_trace(write(f"{HEADER}\n{''.join(rows)}"))


def test_an_endless_table_is_cut(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "PIECE", 10)
    monkeypatch.setattr(table, "MOST_ROWS", 100)
    with pytest.raises(UsageError, match="has more than 100 lines; cut it into several traces"):
        read_trace(write(gzip.compress(HEADER.encode() + b"\n" * 10**6)))


def test_progress_is_reported(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "PIECE", 10)
    reported: list[int] = []
    rows = [f"{row},0,1,1\n" for row in range(25)]
    read_trace(write(f"{HEADER}\n{''.join(rows)}"), progress=reported.append)
    assert reported == [10, 20, 25]


@pytest.mark.parametrize("jobs", [30_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.long])])
def test_many_rows_out_of_order(tmp_path: Path, jobs: int) -> None:
    file = tmp_path / "trace.csv"
    with file.open("w") as lines:
        lines.write(f"{HEADER}\n")
        lines.writelines(f"{row},{row // 3},{1 + row % 8},{row % 977}\n" for row in reversed(range(jobs)))
    trace = read_trace(file)
    assert len(trace) == jobs
    assert np.array_equal(np.array(trace.job_id, dtype=np.int64), np.arange(jobs))


JOBS = st.lists(
    st.builds(TraceJob, st.from_regex(r"[a-z]?[0-9]{1,3}", fullmatch=True), st.integers(0, 3).map(float), st.integers(1, 9),
              st.integers(0, 9).map(float)),
    min_size=1, max_size=12, unique_by=lambda job: job.job_id,
)  # fmt: skip


@given(jobs=JOBS, seed=st.integers())
@settings(deadline=None)
def test_permuted_rows_are_the_same_trace(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[TraceJob], seed: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "permuted.csv"
    found = []
    for rows in (jobs, random.Random(seed).sample(jobs, len(jobs))):
        lines = [f"{job.job_id},{job.submit_time},{job.num_gpus},{job.duration}\n" for job in rows]
        file.write_text(f"{HEADER}\n{''.join(lines)}")
        found.append(read_trace(file).jobs())
    assert found[0] == found[1] == Trace.of(jobs).jobs()
    assert [job.submit_time for job in found[0]] == sorted(job.submit_time for job in jobs)
