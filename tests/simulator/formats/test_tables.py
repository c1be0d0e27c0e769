"""The tables of other sites: a few lines as each has them, made by hand after its own description."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tiresias.errors import UsageError
from tiresias.simulator.formats.trace_columns import Dropped
from tiresias.simulator.trace import TraceJob, read_trace

Write = Callable[..., Path]

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
102,uA,vcX,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:30,2020-06-09 18:45:36,246,3
101,uB,vcY,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
103,uB,vcY,0,8,1,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-09 18:41:29,1,0
104,uB,vcY,64,8,8,CANCELLED,2020-06-09 18:41:28,None,None,0,0
"""

SEREN = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0
5778469,u5907,1,8,128,Pretrain,COMPLETED,2023-02-28 16:23:58+00:00,2023-03-01 00:24:11+08:00,2023-03-01 01:09:04+08:00,\
2693,13,21544.0
"""

KALOS = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,\
stop_time,duration,queue,gpu_time
dlc1,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,\
2023-05-17 11:01:16+00:00,,18,10.0,1152.0
"""

SYMBIOTIC = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23\n"

OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-0017,88000,327680,8,1000,,Burstable,Succeeded,9437497,10769854,9437500
pod-0022,4000,15258,1,220,V100M16|V100M32,BE,Running,9679175,9973826,9679175
pod-0005,20000,65536,0,0,,LS,Running,2759674,12902960,2759676
pod-0061,11908,47104,1,1000,,BE,Pending,10001278,10001403,
"""

TASKS = """\
one,ps,2.0,Terminated,100.0,500.0,600.0,29.3,,
one,worker,3.0,Failed,150.0,600.0,600.0,29.3,50.0,T4
two,tensorflow,1.0,Terminated,90.0,95.0,600.0,29.3,200.0,MISC
three,worker,1.0,Running,90.0,,600.0,29.3,100.0,MISC
four,worker,1.0,Waiting,,,600.0,29.3,100.0,MISC
five,ps,1.0,Terminated,1.0,2.0,600.0,29.3,0.0,CPU
"""

JOBS = "one,inst1,alice,Failed,40.0,600.0\ntwo,inst2,bob,Terminated,80.0,95.0\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str, name: str = "trace") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return to_file


def test_helios(write: Write) -> None:
    trace = read_trace(write(HELIOS))
    assert trace.jobs() == [
        TraceJob("101", 0.0, 1, 36848.0, "uB", "vcY", "", "COMPLETED"),
        TraceJob("102", 26.0, 4, 246.0, "uA", "vcX", "", "FAILED"),
    ]
    assert trace.dropped == (Dropped("asks for no GPU", 1, "103"), Dropped("has no start or no end", 1, "104"))
    assert trace.finish.tolist() == [36848.0, 275.0], "from the first submission to the real ends"


def test_acme_reads_time_zones(write: Write) -> None:
    assert read_trace(write(SEREN)).jobs() == [
        TraceJob("5778432", 0.0, 8, 117.0, "u5907", "", "Other", "FAILED"),
        TraceJob("5778469", 336.0, 8, 2693.0, "u5907", "", "Pretrain", "COMPLETED"),
    ]


def test_acme_kalos_counts_from_the_start(write: Write) -> None:
    """Its own duration, 18 s, counts the queue."""
    assert read_trace(write(KALOS)).jobs() == [TraceJob("dlc1", 0.0, 64, 8.0, "uf794", "", "Other", "FAILED")]


def test_symbioticlab(write: Write) -> None:
    assert read_trace(write(SYMBIOTIC)).jobs() == [
        TraceJob("0", 0.0, 1, 164.0, model="vgg19"),
        TraceJob("1", 30.0, 8, 147.0, model="vgg11"),
    ]


def test_openb(write: Write) -> None:
    trace = read_trace(write(OPENB))
    assert trace.jobs() == [
        TraceJob("pod-0017", 0.0, 8, 10769854 - 9437500, "", "Burstable", "", "Succeeded"),
        TraceJob("pod-0022", 241678.0, 1, 294651.0, "", "BE", "share220", "Running"),
    ]
    assert [each.example for each in trace.dropped] == ["pod-0005", "pod-0061"]


@pytest.mark.parametrize(
    "header", ["", "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"]
)
def test_pai_tasks_make_jobs(write: Write, header: str) -> None:
    """Three workers of half a GPU are two GPUs; a job starts with its first task and is what its tasks are."""
    trace = read_trace(write(header + TASKS))
    assert trace.jobs() == [
        TraceJob("two", 0.0, 2, 5.0, status="Terminated"),
        TraceJob("one", 10.0, 2, 500.0, status="Failed"),
    ]
    assert trace.dropped == (
        Dropped("asks for no GPU", 1, "five"),
        Dropped("has no submit time", 1, "four"),
        Dropped("has no start or no end", 1, "three"),
    )


@pytest.mark.parametrize("packed", [False, True])
def test_pai_job_table_beside(write: Write, packed: bool) -> None:
    jobs = write(JOBS, "pai_job_table.csv")
    if packed:
        jobs.with_name("pai_job_table.csv.gz").write_bytes(gzip.compress(jobs.read_bytes()))
        jobs.unlink()
    assert [(job.job_id, job.submit_time, job.user) for job in read_trace(write(TASKS)).jobs()] == [
        ("one", 0.0, "alice"),
        ("two", 40.0, "bob"),
    ]


def test_pai_job_table_alone(write: Write) -> None:
    with pytest.raises(UsageError, match="contains no GPUs; give pai_task_table"):
        read_trace(write(JOBS))


def test_jobs_larger_than_the_cluster_are_dropped(write: Write) -> None:
    trace = read_trace(write(SYMBIOTIC), gpus=4)
    assert trace.job_id == ("0",)
    assert trace.dropped == (Dropped("is larger than the cluster of 4 GPUs", 1, "1"),)


def test_a_trace_of_which_nothing_is_left(write: Write) -> None:
    with pytest.raises(
        UsageError, match="no jobs that can be replayed; dropped are 1 like 1, which ends before it starts"
    ):
        read_trace(write("job_id,num_gpu,submit_time,model_name,duration\n1,1,0,x,-5\n"))


def test_an_id_of_another_job(write: Write) -> None:
    trace = read_trace(write(SYMBIOTIC + "1,2,60,1,vgg11,5,1\n"))
    assert trace.gpus.tolist() == [1, 8]
    assert trace.dropped == (Dropped("has the id of another job", 1, "1"),)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (HELIOS.replace("2020-06-09 18:45:36", "yesterday"), "line 2, column end_time: 'yesterday' is no time"),
        (HELIOS.replace("uA,vcX,4", "uA,vcX,four"), "line 2, column gpu_num: 'four' is not a number"),
        (HELIOS.replace("102,", "../..,"), "line 2, column job_id: '../..' is not possible"),
        (HELIOS.replace("start_time,", "started,"), "line 1: no column start_time; add it"),
        (HELIOS + "105,uB\n", "line 6: 2 cells for 12 columns"),
        (SYMBIOTIC.replace("164", "1e300"), "line 2, column duration: '1e300' is too large"),
        (OPENB.replace("9437500", "soon"), "line 2, column scheduled_time: 'soon' is not a number"),
        (TASKS + "six,worker,x,Running,1,2,3,4,5,T4\n", "line 7, column inst_num: 'x' is not a number"),
    ],
)
def test_mistakes_name_the_place(write: Write, text: str, output: str) -> None:
    with pytest.raises(UsageError) as error:
        read_trace(write(text))
    assert output in str(error.value)
    assert "\n" not in str(error.value)
