from __future__ import annotations

import gzip

import pytest

from tiresias.errors import UsageError
from tiresias.simulator.trace import TraceJob, read_trace

HEADER = "job_id,submit_time,num_gpus,duration"


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="trace.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to_file


def test_reads_all_columns_in_any_order(write):
    file = write("duration,job_id,user,submit_time,num_gpus,model\n10.5,a,u,3,2,vgg19\n\n1,b,,0,1.0,\n")
    assert read_trace(file).jobs() == [
        TraceJob("b", 0.0, 1, 1.0), TraceJob("a", 3.0, 2, 10.5, user="u", model="vgg19"),
    ]  # fmt: skip


def test_jobs_of_the_same_time_stand_in_natural_order(write):
    file = write(f"{HEADER}\nj10,5,1,1\nj9,5,1,1\nm,0,1,1\na,5,1,1\n")
    assert read_trace(file).job_id == ("m", "a", "j9", "j10")


def test_gzip_by_content_and_excel_byte_order_mark(write):
    text = f"{HEADER}\n1,0,1,1\n"
    assert len(read_trace(write(gzip.compress(text.encode()), "no-suffix"))) == 1
    assert len(read_trace(write("\ufeff" + text))) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (HEADER, "has no jobs"),
        ("job_id,submit_time,num_gpus\n1,0,1\n", "line 1: no column duration; add it"),
        (f"{HEADER},gpu_kind\n1,0,1,1,x\n", "line 1: unknown column 'gpu_kind'; rename or remove it"),
        (f"{HEADER},duration\n1,0,1,1,1\n", "line 1: a column stands there twice"),
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
        (gzip.compress(f"{HEADER}\n1,0,1,1\n".encode())[:-12], "cannot be read"),
        (b"\x1f\x8bgarbage", "cannot be read"),
        (f"{HEADER}\n\"1,0,1,1\n" + "x" * 200_000, "is no CSV"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_that_names_the_place(write, text, said):
    file = write(text)
    with pytest.raises(UsageError) as error:
        read_trace(file, gpus=60)
    assert said in str(error.value)
    assert str(error.value).startswith(f"{file}: ")
    assert "\n" not in str(error.value)


def test_missing_file(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_trace(tmp_path / "none.csv")


def test_a_hostile_cell_stays_on_one_line(write):
    with pytest.raises(UsageError) as error:
        read_trace(write(f'{HEADER}\n1,0,1,"5\n\x1b[31m{"x" * 500}"\n'))
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)
    assert len(str(error.value)) < 300
