"""Processes that use CUDA: the order of calls with a library in the place of the driver, and the real driver where a GPU is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.wrappers.images import programs
from tests.wrappers.images.campaign import one_program
from tiresias.wrappers.images import cuda_state, image_place, mapped_processes
from tiresias.wrappers.images.cuda_state import CudaDriver, CudaRefused

NO_GPU = cuda_state.missing()
NO_CRIU = image_place.kind("criu").missing()
on_a_gpu = pytest.mark.skipif(bool(NO_GPU), reason=f"no GPU whose driver can suspend processes: {NO_GPU}")
with_criu = pytest.mark.skipif(bool(NO_CRIU), reason=f"{NO_CRIU}: docs/how-to/dmtcp.md")
GPUS = ("00112233445566778899aabbccddeef0", "f0112233445566778899aabbccddeef1")
Site = Any  # conftest.py


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library in place of NVIDIA's."""
    compiler = os.environ.get("CC", "cc").split()
    if not shutil.which(compiler[0]):
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("fake") / cuda_state.LIBRARY
    source = Path(__file__).with_name("fake_cuda.c")
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return str(library)


@pytest.fixture
def library(compiled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two GPUs, and the processes 11 and 12, which use CUDA; 10 does not."""
    monkeypatch.setenv("FAKE_CUDA", str(tmp_path))
    (tmp_path / "gpus").write_text("\n".join(GPUS))
    for pid in (11, 12):
        (tmp_path / str(pid)).write_text("0")
    return compiled


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_all_processes_are_locked_before_one_is_suspended(library: str, tmp_path: Path) -> None:
    assert cuda_state.suspend([10, 11, 12], tmp_path / "file", library) == ""
    assert calls(tmp_path) == ["lock 11", "lock 12", "checkpoint 11", "checkpoint 12"]
    assert cuda_state.resume([10, 11, 12], tmp_path / "file", library) == ""
    assert calls(tmp_path)[4:] == ["restore 11", "unlock 11", "restore 12", "unlock 12"]


@pytest.mark.parametrize("failing", ["lock 11", "lock 12", "checkpoint 11", "checkpoint 12"])
def test_one_that_cannot_be_suspended_leaves_all_running(library: str, tmp_path: Path, failing: str) -> None:
    (tmp_path / "fails").write_text(failing)
    function = {"lock": "cuCheckpointProcessLock", "checkpoint": "cuCheckpointProcessCheckpoint"}[failing.split()[0]]
    problem = cuda_state.suspend([11, 12], tmp_path / "file", library)
    assert problem == f"{function}: CUDA_ERROR_NOT_SUPPORTED"
    assert [(tmp_path / pid).read_text() for pid in ("11", "12")] == ["0", "0"]


def test_the_state_goes_to_other_gpus_where_the_old_ones_are_not_here(library: str, tmp_path: Path) -> None:
    (tmp_path / "gpus").write_text(GPUS[0])
    assert cuda_state.suspend([11], tmp_path / "file", library) == ""
    (tmp_path / "gpus").write_text(GPUS[1])
    assert cuda_state.resume([11], tmp_path / "file", library) == ""
    assert calls(tmp_path)[2] == "restore 11 f0->f0", "the last byte of the old one, the first of the new one"


def test_fewer_gpus_are_refused(library: str, tmp_path: Path) -> None:
    assert cuda_state.suspend([11], tmp_path / "file", library) == ""
    (tmp_path / "gpus").write_text(GPUS[1])
    assert cuda_state.resume([11], tmp_path / "file", library) == "the program used 2 GPUs, and 1 are here"


@pytest.mark.parametrize("text", ["", "{}", "[1]", '["zz"]', '["00"]', "[null]"])
def test_a_damaged_list_of_gpus_is_refused(library: str, tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    assert cuda_state.resume([11], tmp_path / "file", library) == f"{tmp_path / 'file'} has no list of GPUs"


def test_a_program_without_a_suspended_process_is_reported(library: str, tmp_path: Path) -> None:
    assert cuda_state.suspend([11], tmp_path / "file", library) == ""
    assert cuda_state.resume([12], tmp_path / "file", library) == "no process has a state that was taken from a GPU"


def test_a_node_without_a_driver_or_with_an_old_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nowhere.so" in cuda_state.missing("nowhere.so")
    assert cuda_state.missing("libc.so.6") == "the NVIDIA driver is older than 570"


def test_a_node_without_gpus_is_named(compiled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAKE_CUDA", raising=False)
    with pytest.raises(CudaRefused, match="cuInit: CUDA_ERROR_NO_DEVICE"):
        CudaDriver(compiled)


# -- a real GPU ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def user() -> Iterator[subprocess.Popen[str]]:
    """A process that adds on a GPU, a line on its input for each sum."""
    code = "import sys, torch\ntotal = torch.zeros(1 << 20, device='cuda')\nprint('ready', flush=True)\n"
    code += "for line in sys.stdin:\n    total += 1\n    print(int(total.sum().item()) >> 20, flush=True)\n"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()


def sum_of(process: subprocess.Popen[str]) -> str:
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


@on_a_gpu
def test_a_suspended_process_has_no_gpu_open_and_continues(user: subprocess.Popen[str], tmp_path: Path) -> None:
    assert sum_of(user) == "1"
    for number in ("2", "3"):
        assert cuda_state.suspend([user.pid], tmp_path / "file") == ""
        assert mapped_processes.gpu_users([user.pid]) == []
        assert cuda_state.resume([user.pid], tmp_path / "file") == ""
        assert sum_of(user) == number


@on_a_gpu
def test_the_driver_takes_pairs_of_gpus(user: subprocess.Popen[str]) -> None:
    """One GPU is moved to itself; a machine with two of a type is not at hand."""
    driver = CudaDriver()
    assert sum_of(user) == "1"
    driver.suspend([user.pid])
    assert driver.resume([user.pid], [(uuid, uuid) for uuid in driver.gpus()]) == 1
    assert sum_of(user) == "2"


@on_a_gpu
@with_criu
def test_a_training_on_a_gpu_is_preempted_and_ends_with_the_same_bytes() -> None:
    result = one_program(programs.CUDA, preemptions=3, seed=1, tool="criu")
    assert (result["preemptions"], result["identical"]) == (3, True)


@on_a_gpu
@with_criu
def test_a_program_that_has_a_gpu_open_without_cuda_is_not_dumped_and_runs_on(site: Site) -> None:
    script = f"""{programs.PYTHON} -c "
import pathlib, time
device = open('/dev/nvidiactl')
print('has it', flush=True)
while not pathlib.Path('go').exists(): time.sleep(0.1)"
"""
    job = site.start(script, TIRESIAS_CHECKPOINT="criu")
    job.until(lambda report: report.ready).until_logged("has it")
    job.send(signal.SIGUSR2).until_logged("the script runs on: a process has /dev/nvidiactl open without CUDA")
    (site.folder / "go").touch()
    assert job.end() == 0
