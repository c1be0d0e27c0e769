"""The use of GPUs by NVML, with a library in place of NVIDIA's, and by the CPU time of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.polling import pauses
from tests.wrappers.gpu_activity.fake_nvml import compile_into
from tiresias.protocol import control, gpu_activity
from tiresias.wrappers.gpu_activity import activity_watcher
from tiresias.wrappers.gpu_activity.activity_watcher import ActivityWatcher, meter_of
from tiresias.wrappers.gpu_activity.idle_times import IdleTimes
from tiresias.wrappers.gpu_activity.meters import MeterUnavailable
from tiresias.wrappers.gpu_activity.nvml_meter import NvmlMeter
from tiresias.wrappers.gpu_activity.process_meter import ProcessMeter, cpu_seconds, of_cgroup


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(compile_into(tmp_path_factory.mktemp("nvml")))


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("", [0.0, 0.8, 0.05]), ("1", [0.8]), ("2,0", [0.05, 0.0]), ("GPU-1", [0.8])],
)
def test_the_utilisation_of_the_jobs_gpus(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, expected: list[float]
) -> None:
    (tmp_path / "use").write_text("0 80 5")
    monkeypatch.setenv("FAKE_GPU_USE", str(tmp_path / "use"))
    meter = NvmlMeter({"CUDA_VISIBLE_DEVICES": visible}, library)
    assert (meter.source, meter.use()) == ("nvml", expected)
    (tmp_path / "use").write_text("100 300 100")
    assert set(meter.use()) == {1.0}


@pytest.mark.parametrize("visible", ["7", "MIG-1", "x", "99999999999999999999"])
def test_gpus_that_cannot_be_measured(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    (tmp_path / "use").write_text("0 80")
    monkeypatch.setenv("FAKE_GPU_USE", str(tmp_path / "use"))
    with pytest.raises(MeterUnavailable):
        NvmlMeter({"CUDA_VISIBLE_DEVICES": visible}, library)


def test_without_nvml_the_processes_count() -> None:
    with pytest.raises(MeterUnavailable):
        NvmlMeter({}, "libno-such-library.so.1")
    assert meter_of({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "2"}).source == "processes"


SLEEPER = """
import time
while time.process_time() < 0.2:
    pass
print("sleeps", flush=True)
time.sleep(600)
"""  # Linux counts CPU time in ticks of 10 ms: a start alone can take less than one


@contextmanager
def running(program: str, job: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "SLURM_JOB_ID": job}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_process_that_works_and_one_that_sleeps() -> None:
    works, sleeps = f"{os.getpid()}01", f"{os.getpid()}02"
    with running("while True: pass", works), running(SLEEPER, sleeps) as sleeper:
        meter, pause, deadline = ProcessMeter(works, 1), pauses(), time.monotonic() + 60
        while meter.use() < [0.05]:
            assert time.monotonic() < deadline
            pause()
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == "sleeps\n"
        assert cpu_seconds(sleeps) >= 0.15
        quiet = ProcessMeter(sleeps, 1)
        assert quiet.use() == [0.0]
    assert cpu_seconds("no such job") == 0.0


def test_the_cgroup_of_the_job_has_the_time_of_all_steps(tmp_path: Path) -> None:
    """Files as Slurm's cgroup plugin of version 2 has them; this machine has no such cgroups."""
    own, job = tmp_path / "own", tmp_path / "system.slice/slurmstepd.scope/job_7"
    own.write_text("0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n")
    job.mkdir(parents=True)
    (job / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n")
    assert of_cgroup("7", own, tmp_path) == 2.5
    with pytest.raises(ValueError, match="job 70 has no cgroup"):
        of_cgroup("70", own, tmp_path)


def test_idle_times() -> None:
    idle = IdleTimes(0.05)
    assert idle.seconds(0.0) == ()
    idle.add(10.0, [0.0, 0.5])
    idle.add(70.0, [0.0, 0.04])
    assert idle.seconds(100.0) == (90.0, 90.0)
    idle.add(110.0, [0.05, 0.0])
    assert idle.seconds(120.0) == (10.0, 110.0)
    idle.add(130.0, [0.0])
    assert idle.seconds(131.0) == (1.0,), "another number of GPUs"


class _Meter:
    source = gpu_activity.NVML

    def __init__(self) -> None:
        self.now = [0.0]

    def use(self) -> list[float]:
        return self.now


def test_one_line_in_the_output_for_each_idle_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = control.job_folder(tmp_path, os.getuid(), "7")
    control.make(folder, "")
    meter = _Meter()
    watcher = ActivityWatcher(meter, folder, 1, 0.05, 120.0)
    for now in (0.0, 60.0, 120.0, 180.0):
        watcher.sample(now)
        watcher.report(now)
    line = "tiresias: this job has not used its GPUs for 2 min (measured by NVML): end it if it does not need them\n"
    assert capfd.readouterr().err == line
    assert gpu_activity.read(tmp_path, os.getuid(), "7") == (1, "nvml", 3, (180.0,))
    meter.now = [0.9]
    watcher.sample(181.0)
    watcher.report(181.0)
    assert gpu_activity.read(tmp_path, os.getuid(), "7").idle == (0.0,)
    meter.now = [0.0]
    watcher.sample(200.0)
    watcher.report(301.0)
    assert capfd.readouterr().err == line


def test_the_gpus_of_a_node() -> None:
    assert [activity_watcher.gpus_of({"SLURM_GPUS_ON_NODE": text}) for text in ("4", "", "x", "9" * 30)] == [4, 1, 1, 1]
