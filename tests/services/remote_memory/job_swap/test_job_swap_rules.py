"""The parts of a job's swap without devices: requests, limits, headers, messages and settings."""

from __future__ import annotations

import errno
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.errors import UsageError
from tiresias.services.remote_memory.job_swap import fuse_protocol, job_cgroup, swap_area, swap_request
from tiresias.services.remote_memory.job_swap.fuse_protocol import FuseError, FuseRequest
from tiresias.services.remote_memory.job_swap.node_ability import isolation_risks
from tiresias.services.remote_memory.job_swap.swap_settings import read_swap_settings
from tiresias.services.remote_memory.job_swap.use_publication import job_name

SIZES = st.integers(0, 1 << 50)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 0),
        ("deadline=3", 0),
        ("remote-mem=64", 64 << 20),
        ("remote-mem=1500K", 1500 << 10),
        ("a=b,remote-mem=2g", 2 << 30),
        ("a=b remote-mem=1T;c", 1 << 40),
        ("remote-mem=1K", swap_area.LEAST_BYTES),
        ("not-remote-mem=1G", 0),
    ],
)
def test_a_request_is_a_size_with_a_unit(text: str, size: int) -> None:
    assert swap_request.requested_bytes(text) == size


@pytest.mark.parametrize("size", ["", "0", "0G", "-1", "1.5G", "1GB", "9999999999", "G", "1 G G"])
def test_what_is_no_size_is_refused(size: str) -> None:
    if size == "1 G G":  # the text ends at the blank: 1 MiB
        assert swap_request.requested_bytes(f"remote-mem={size}") == 1 << 20
        return
    with pytest.raises(UsageError, match="above 0"):
        swap_request.requested_bytes(f"remote-mem={size}")


@pytest.mark.parametrize("job", ["", "0", "12a", "../7", "1" * 12])
def test_a_job_has_a_number(job: str) -> None:
    with pytest.raises(UsageError, match="SLURM_JOB_ID"):
        swap_request.job_of({"SLURM_JOB_ID": job})


def test_the_file_of_a_job_comes_before_the_variable(tmp_path: Path) -> None:
    environment = {"SLURM_JOB_EXTRA": "remote-mem=1G"}
    assert swap_request.request_text("5", tmp_path, "SLURM_JOB_EXTRA", environment) == "remote-mem=1G"
    (tmp_path / "5").write_text("remote-mem=2G\n")
    assert swap_request.request_text("5", tmp_path, "SLURM_JOB_EXTRA", environment) == "remote-mem=2G\n"
    assert swap_request.request_text("5", None, "OTHER", environment) == ""


@given(memory=SIZES, memsw=SIZES, swap=SIZES)
def test_limits_are_raised_to_what_the_job_may_swap_and_never_lowered(memory: int, memsw: int, swap: int) -> None:
    raised = job_cgroup.raised_memsw(memory, memsw, swap)
    after = memsw if raised is None else raised
    assert after == max(memsw, memory + swap)
    assert job_cgroup.raised_memsw(memory, after, swap) is None
    assert job_cgroup.raised_swap_max(str(memsw), swap) == (swap if memsw < swap else None)


def test_no_limit_stays_no_limit() -> None:
    assert job_cgroup.raised_memsw(2**63 - 4096, 2**63 - 4096, 1 << 30) is None
    assert job_cgroup.raised_swap_max("max", 1 << 30) is None


@given(pages=st.integers(10, 1 << 31), job=st.integers(1, 2**32 - 1))
def test_a_header_names_its_job(pages: int, job: int) -> None:
    page = swap_area.header(pages * swap_area.PAGE_BYTES, str(job))
    assert len(page) == swap_area.PAGE_BYTES
    assert swap_area.label_of(page) == f"{swap_area.LABEL}{job}"
    assert struct.unpack_from("<II", page, 1024) == (1, pages - 1)
    assert swap_area.label_of(bytes(len(page))) == swap_area.label_of(page[:-1]) == ""


def test_a_device_is_known_after_its_mounts_have_ended() -> None:
    text = (
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        "/loop3                                  partition\t262140\t\t36\t\t100\n"
        "/swap\\040file                           file\t\t1024\t\t0\t\t-2\n"
    )
    found = swap_area.parse_swaps(text)
    assert found["/dev/loop3"] == swap_area.SwapUse("/dev/loop3", 262140 << 10, 36 << 10, 100)
    assert len(found) == 2


def request(operation: int, arguments: bytes = b"", node: int = fuse_protocol.ROOT_NODE) -> FuseRequest:
    header = fuse_protocol.IN_HEADER.pack(
        fuse_protocol.IN_HEADER.size + len(arguments), operation, 9, node, 0, 0, 0, 0, 0
    )
    return fuse_protocol.parse(memoryview(header + arguments))


@pytest.mark.parametrize("name", [b"swap", b"swap2\0", b"\0", b"../swap\0"])
def test_only_the_file_has_a_name(name: bytes) -> None:
    with pytest.raises(FuseError) as error:
        fuse_protocol.metadata_answer(request(fuse_protocol.LOOKUP, name), 1 << 20)
    assert error.value.number == errno.ENOENT


@pytest.mark.parametrize("operation", [4, 9, 11, 43, 9999])
def test_other_operations_do_not_exist(operation: int) -> None:
    with pytest.raises(FuseError) as error:
        fuse_protocol.metadata_answer(request(operation), 1 << 20)
    assert error.value.number == errno.ENOSYS


def test_a_kernel_with_an_older_protocol_is_refused() -> None:
    with pytest.raises(FuseError) as error:
        fuse_protocol.metadata_answer(request(fuse_protocol.INIT, struct.pack("<IIII", 7, 19, 0, 0)), 1 << 20)
    assert error.value.number == errno.EPROTO


def test_a_truncated_request_is_refused() -> None:
    header = fuse_protocol.IN_HEADER.pack(100, fuse_protocol.READ, 9, 2, 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="in place of 100"):
        fuse_protocol.parse(memoryview(header))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({}, "disk is missing"),
        ({"disk": "/var/tmp", "disc": 1}, "unknown key disc"),
        ({"disk": "/var/tmp", "most_mib": 0}, "most_mib = 0"),
        ({"disk": "/var/tmp", "most_jobs": True}, "most_jobs = True"),
        ({"disk": "/var/tmp", "donors": "node7:9"}, "donors is no list"),
        ({"disk": "/var/tmp", "donors": ["node7:9"]}, "service_key_file is missing"),
        ({"disk": "/var/tmp", "donors": [], "near": ["node7:9"]}, "near: node7:9 is none of the donors"),
        ({"disk": "/var/tmp", "keys": "some"}, "keys is requests or all"),
        ({"disk": "/var/tmp", "munge": 1}, "munge is true or false"),
        ({"disk": "/var/tmp", "start_timeout_s": 0}, "start_timeout_s = 0"),
    ],
)
def test_a_wrong_configuration_is_one_line(tmp_path: Path, content: dict[str, object], reason: str) -> None:
    file = tmp_path / "swap.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=reason) as error:
        read_swap_settings(file)
    assert str(file) in str(error.value)


def test_swap_without_limits_in_slurm_is_a_risk() -> None:
    limited = "ConstrainRAMSpace       = yes\nConstrainSwapSpace      = yes\n"
    assert not [each for each in isolation_risks(limited) if "cgroup.conf" in each]
    assert len([each for each in isolation_risks(limited.replace("yes", "no")) if "cgroup.conf" in each]) == 2


def test_a_task_of_an_array_has_the_id_that_squeue_prints() -> None:
    """A prolog has the number alone; that of the array is the number of one of its tasks as well."""
    record = (
        "JobId=7 ArrayJobId=7 ArrayTaskId=3 ArrayTaskThrottle=1 JobName=wrap Dependency=afterok:9\n"
        "JobId=6 ArrayJobId=7 ArrayTaskId=1 JobName=JobId=7\n"
    )
    assert (job_name("7", record), job_name("6", record), job_name("8", record)) == ("7_3", "7_1", "8")
    assert job_name("5", "JobId=5 JobName=a ArrayTaskId=2\n") == job_name("5", "") == "5"
