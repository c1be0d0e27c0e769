"""Swap of a job on real devices: a job that dies without it, ends and crashes of each part, and what remains."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.services.remote_memory.donors import SERVICE_KEY, DonorProcess
from tests.services.remote_memory.job_swap.swap_node import SWAPPING, SwapNode, until
from tiresias.protocol import control, remote_memory_use
from tiresias.protocol.remote_memory_use import KEY
from tiresias.services.remote_memory.job_swap import loop_devices, zram_devices
from tiresias.services.remote_memory.job_swap.swap_area import swaps
from tiresias.services.remote_memory.messages.job_key import job_key

pytestmark = pytest.mark.xdist_group("job swap")  # devices are the machine's

ANOTHER = 65534
JOB, REQUEST = "7001", "remote-mem=320M"
BOUND_S = 4.0  # of swapoff


def device_of(job: str = JOB) -> str:
    return next(each.path for each in loop_devices.own_devices() if each.job == job)


def memsw(cgroup: Path) -> int:
    return int((cgroup / "memory.memsw.limit_in_bytes").read_text())


def allows_swap(cgroup: Path) -> bool:
    return memsw(cgroup) == (64 + 320) << 20


def test_a_job_is_killed_without_a_swap(node: SwapNode) -> None:
    process = node.swapping(node.cgroup(JOB, 64), 256, 1)
    assert process.wait(60) == -signal.SIGKILL


@pytest.mark.slow
def test_a_job_finishes_with_a_swap_and_nothing_remains(node: SwapNode) -> None:
    cgroup = node.cgroup(JOB, 64)
    assert node.call("prolog", JOB, REQUEST) == ""
    until(lambda: allows_swap(cgroup), "the limit is raised")
    output, errors = node.swapping(cgroup, 256, 20000).communicate(timeout=240)
    assert output.split() == ["filled", "checked"], errors
    log = node.call("epilog", JOB)
    assert '"failed": 0' in log
    assert node.left(JOB) == []


def test_a_limit_is_raised_again_after_slurm_has_written_it(node: SwapNode) -> None:
    node.call("prolog", JOB, REQUEST)
    cgroup = node.cgroup(JOB, 64)
    step = cgroup / "step_0"
    step.mkdir()
    for folder in (cgroup, step):
        (folder / "memory.limit_in_bytes").write_text(str(64 << 20))
        (folder / "memory.memsw.limit_in_bytes").write_text(str(64 << 20))
        until(functools.partial(allows_swap, folder), "the limit is raised", 0.9)
    step.rmdir()


def test_another_job_has_no_swap(node: SwapNode) -> None:
    node.call("prolog", JOB, REQUEST)
    other = node.cgroup("7002", 64)
    assert node.swapping(other, 128, 1).wait(60) == -signal.SIGKILL
    assert (
        swaps()[device_of()].used < 1 << 20
    )  # of the 64 MiB that it lacks; the kernel may put pages of any process there


def swapping_job(node: SwapNode, job: str = JOB, writes: int = 10**9, mib: int = 192) -> subprocess.Popen[str]:
    """Start a job that has pages in its swap; it writes for ever where the number of writes is not stated."""
    cgroup = node.cgroup(job, 64)
    node.call("prolog", job, REQUEST)
    process = node.swapping(cgroup, mib, writes)
    assert process.stdout is not None
    assert process.stdout.readline() == "filled\n"
    return process


@contextmanager
def serving_slowly(pid: int, device: str) -> Iterator[None]:
    """Stop a serving process for most of each second, as long as the kernel swaps on its device."""
    done = threading.Event()

    def pause() -> None:
        with suppress(ProcessLookupError):
            while not done.wait(0.15) and device in swaps():
                os.kill(pid, signal.SIGSTOP)
                done.wait(0.85)
                os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=pause)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.slow
def test_a_killed_server_ends_the_processes_that_need_their_pages_and_nothing_else(node: SwapNode) -> None:
    process = swapping_job(node)
    os.kill(node.server(JOB), signal.SIGKILL)
    assert process.wait(30) == -signal.SIGBUS
    started = time.monotonic()
    node.call("epilog", JOB)
    assert time.monotonic() - started < 10
    assert node.left(JOB) == []


@pytest.mark.slow
def test_a_server_that_hangs_is_given_up_in_time(node: SwapNode) -> None:
    process = swapping_job(node)
    os.kill(node.server(JOB), signal.SIGSTOP)
    started = time.monotonic()
    node.call("epilog", JOB)  # the job's process lives: the worst case
    assert time.monotonic() - started < 15
    assert process.wait(30) == -signal.SIGBUS
    assert node.left(JOB) == []


@pytest.mark.slow
def test_an_epilog_moves_the_pages_of_another_job_for_as_long_as_that_goes_on(node_of: Callable[..., SwapNode]) -> None:
    """The bound of swapoff is shorter than it takes: pages of the job that runs are on the device of the one that has ended."""
    node = node_of(most_jobs=2, swap_off_timeout_s=BOUND_S)
    first, second = swapping_job(node), swapping_job(node, "7002", 10000, mib=352)
    first.kill()
    first.wait(30)
    until(lambda: swaps()[device_of()].used > 32 << 20, "the kernel has put pages of the second job there")
    with serving_slowly(node.server(JOB), device_of()):
        began = time.monotonic()
        assert '"failed": 0' in node.call("epilog", JOB)
        assert time.monotonic() - began > BOUND_S
    assert node.left(JOB) == []
    output, errors = second.communicate(timeout=240)
    assert output == "checked\n", errors


@pytest.mark.slow
def test_a_job_goes_on_from_the_disk_when_a_donor_is_killed(node_of: Callable[..., SwapNode], tmp_path: Path) -> None:
    donors = [DonorProcess(tmp_path / f"donor{number}", most_mib=128, slab_mib=8) for number in range(2)]
    try:
        key = str(donors[0].folder / "key")
        node = node_of(donors=[each.address for each in donors], service_key_file=key, slab_mib=8)
        cgroup = node.cgroup(JOB, 48)
        assert node.call("prolog", JOB, "remote-mem=160M") == ""
        process = node.swapping(cgroup, 96, 12000)
        assert process.stdout is not None
        assert process.stdout.readline() == "filled\n"
        until(lambda: donors[0].statistics()["mapped"], "a slab of the first donor is lent")
        donors[0].kill()
        output, errors = process.communicate(timeout=120)
        assert output == "checked\n", errors
        traffic = json.loads(node.call("epilog", JOB).partition(f"job {JOB}: ")[2])
    finally:
        for each in donors:
            each.kill()
    assert traffic["failed"] == 0
    assert traffic["written_remote"] > 0
    assert traffic["lost_donors"] >= 1
    assert node.left(JOB) == []


def test_the_owner_alone_reads_the_files_of_a_job(node: SwapNode, tmp_path: Path) -> None:
    """Another user has a control folder, which a link of that user leads elsewhere later."""
    control_folder = control.job_folder(tmp_path / "control", ANOTHER, JOB)
    control_folder.mkdir(parents=True)
    for each in (control_folder.parent, control_folder):
        os.chown(each, ANOTHER, ANOTHER)
    temporary = Path(tempfile.gettempdir())
    for each in (tmp_path, *(parent for parent in tmp_path.parents if temporary in parent.parents)):
        each.chmod(0o755)
    node.configure(control=str(tmp_path / "control"))
    node.slurm = {"SLURM_JOB_UID": str(ANOTHER), "SLURM_JOB_GID": str(ANOTHER), "SLURMD_NODENAME": "gpu01"}
    node.call("prolog", JOB, REQUEST)
    report = until(lambda: (found := node.files(JOB) / "report.json").exists() and found, "a report")
    assert (report.stat().st_uid, stat.S_IMODE(report.stat().st_mode)) == (ANOTHER, 0o600)
    assert (report.parent.stat().st_uid, stat.S_IMODE(report.parent.stat().st_mode)) == (0, 0o711)
    (use,) = until(lambda: remote_memory_use.read_all(control_folder, ANOTHER), "it is published")
    assert (use.node, use.requested, use.refused) == ("gpu01", 320 << 20, "")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    shutil.rmtree(control_folder / "memory")
    (control_folder / "memory").symlink_to(elsewhere)
    node.call("epilog", JOB)
    assert list(elsewhere.iterdir()) == []
    assert node.left(JOB) == []


def test_the_prolog_hands_a_key_to_the_owner_of_a_job(node_of: Callable[..., SwapNode], tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text(SERVICE_KEY.hex())
    node = node_of(donors=["127.0.0.1:1"], service_key_file=str(key))
    node.slurm = {"SLURM_JOB_UID": str(ANOTHER), "SLURM_JOB_GID": str(ANOTHER)}
    handed = node.files(JOB) / KEY
    node.call("prolog", JOB)
    assert not handed.exists()
    node.configure(keys="all")
    node.call("prolog", JOB)
    assert (handed.stat().st_uid, stat.S_IMODE(handed.stat().st_mode)) == (ANOTHER, 0o600)
    content = json.loads(handed.read_text())
    assert content["job"] == f"{JOB}.uid{ANOTHER}"
    assert bytes.fromhex(content["key"]) == job_key(SERVICE_KEY, content["job"])
    assert (content["donors"], content["slab_mib"], content["munge"]) == (["127.0.0.1:1"], 64, False)
    node.call("epilog", JOB)
    assert node.left(JOB) == []


def test_both_parts_can_be_repeated(node: SwapNode) -> None:
    node.call("epilog", JOB)
    for _ in range(2):
        node.call("prolog", JOB, REQUEST)
        assert len([each for each in loop_devices.own_devices() if each.job == JOB]) == 1
    for _ in range(2):
        node.call("epilog", JOB)
        assert node.left(JOB) == []


def test_a_second_job_of_the_node_is_refused_and_runs_without(node: SwapNode) -> None:
    node.call("prolog", JOB, REQUEST)
    reason = node.call("prolog", "7002", REQUEST)
    assert "this node has the swap of job 7001" in reason
    assert "7001" in (node.files("7002") / "refused").read_text()
    node.call("epilog", "7002")
    assert node.left("7002") == []
    assert device_of()


@pytest.mark.parametrize(
    ("request_text", "reason"),
    [
        ("remote-mem=0", "size above 0"),
        ("remote-mem=-1G", "size above 0"),
        ("remote-mem=1G remote-mem=2G", "one size"),
        ("remote-mem=65G", "this node gives 65536 MiB"),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(node: SwapNode, request_text: str, reason: str) -> None:
    found = node.call("prolog", JOB, request_text)
    assert reason in found
    assert found.count("\n") == 1
    node.call("epilog", JOB)
    assert node.left(JOB) == []


def test_a_disk_that_is_too_small_is_refused(node: SwapNode) -> None:
    node.configure(most_mib=1 << 30)
    assert "takes no swap of" in node.call("prolog", JOB, "remote-mem=900T")
    assert [each for each in node.left(JOB) if not each.endswith(("/refused", ".log"))] == []


def test_devices_of_others_are_left_as_they_are(node: SwapNode, tmp_path: Path) -> None:
    file = tmp_path / "other"
    file.write_bytes(bytes(1 << 20))
    path = subprocess.check_output(["losetup", "--find", "--show", str(file)], text=True).strip()
    try:
        node.call("prolog", JOB, REQUEST)
        node.call("epilog", JOB)
        loop_devices.detach_device(path, JOB)
        loop_devices.detach_device(path, "")
        assert str(file) in subprocess.check_output(["losetup", "--all"], text=True)
    finally:
        subprocess.check_call(["losetup", "--detach", path])


@pytest.mark.slow
def test_a_kill_at_any_time_leaves_what_the_epilog_removes(node: SwapNode) -> None:
    chance = random.Random(3)
    for _ in range(25):
        prolog = node.start("prolog", JOB, REQUEST)
        time.sleep(chance.uniform(0.05, 0.6))  # not a wait for something: the time of the kill is what is tested
        if chance.random() < 0.5 and (server := node.server(JOB)):
            os.kill(server, signal.SIGKILL)
        prolog.kill()
        prolog.communicate()
        epilog = node.start("epilog", JOB)
        time.sleep(chance.uniform(0.05, 0.5))
        epilog.kill()
        epilog.communicate()
        node.call("epilog", JOB)
        assert node.left(JOB) == []


@pytest.mark.slow
def test_compressed_memory_is_filled_first(node_of: Callable[..., SwapNode]) -> None:
    if not zram_devices.CONTROL.exists():
        pytest.skip("the kernel has no zram")
    node = node_of(zram_mib=64)
    cgroup = node.cgroup(JOB, 64)
    node.call("prolog", JOB, REQUEST)
    process = node.swapping(cgroup, 112, 10**9)
    assert process.stdout is not None
    assert process.stdout.readline() == "filled\n"
    zram = next(each.path for each in zram_devices.own_devices() if each.job == JOB)
    assert swaps()[zram].used > 16 << 20
    assert (
        swaps()[device_of()].used < 1 << 20
    )  # of the 64 MiB that it lacks; the kernel may put pages of any process there
    process.kill()
    process.communicate()
    node.call("epilog", JOB)
    assert node.left(JOB) == []


def test_the_swap_process_is_in_no_cgroup_of_the_job(node: SwapNode) -> None:
    cgroup = node.cgroup(JOB, 64)
    node.call("prolog", JOB, REQUEST)
    assert str(node.server(JOB)) not in (cgroup / "cgroup.procs").read_text().split()
    status = Path(f"/proc/{node.server(JOB)}/status").read_text()
    locked, resident = (int(status.split(f"{name}:")[1].split()[0]) for name in ("VmLck", "VmRSS"))
    assert locked >= resident * 0.9
    assert SWAPPING not in status
