"""Dumps and restores that fail: one line in the log has the reason, and the image before stays usable. The tool must be in PATH."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.wrappers import leftovers
from tests.wrappers.images.image_runs import (
    LARGE,
    MARKS,
    RESULT,
    TOOLS,
    Gate,
    Job,
    Site,
    dumped,
    ends_well,
    images,
    log_of,
    only_line,
    requeue,
    start,
    started,
    steps,
)
from tiresias.protocol import control
from tiresias.wrappers import isolated
from tiresias.wrappers.images import dmtcp, dump
from tiresias.wrappers.images.image_place import ProgramLost

pytestmark = pytest.mark.long
mounts = pytest.mark.skipif(bool(os.getuid()), reason="only root can mount file systems")
WITH_CHILD = 'sleep 1000 & echo "step 3"; wait\n'
NODE = "hostname node2; mount -t tmpfs none {}; exec "


@pytest.fixture
def disk(site: Site) -> Iterator[Path]:
    """A file system of one MiB."""
    folder = site.folder / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        site.kill()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def resize(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def fill(disk: Path, left: int) -> None:
    """Take all of a file system but some bytes."""
    found = os.statvfs(disk)
    with (disk / "filling").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - left)


def pid_of(site: Site, word: bytes) -> int:
    """Return the process of the site's jobs that has a word in its command."""
    for pid in leftovers.pids(site.folder, "-"):
        with suppress(OSError):
            if word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return pid
    raise AssertionError(f"no process of {word!r}")


def held_in_its_dump(site: Site, tool: str, restart: int, **env: str) -> tuple[Job, Gate]:
    """A run whose dump has been requested, and waits."""
    gate = Gate(site, tool)
    job = started(site, tool, restart, PATH=gate.path, **env).send(signal.SIGUSR2)
    gate.until_reached(job)
    return job, gate


@pytest.mark.parametrize("tool", TOOLS)
def test_an_image_that_is_complete_after_the_deadline_is_kept(site: Site, tool: str) -> None:
    requeue(dumped(site, tool, 0))
    job, gate = held_in_its_dump(site, tool, 1, TIRESIAS_SAVE_DEADLINE="0.1")
    job.until_logged("the image is not committed")
    line = only_line(job, "the image is not committed")
    assert "If Slurm ends the job before the commit, it goes back to image 1" in line
    assert steps(site) == [1]
    gate.open()
    requeue(job.until(lambda report: report.state == "parked"))
    assert steps(site) == [2, 1]
    ends_well(site, start(site, tool, 2))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_job_that_slurm_ends_after_the_deadline_goes_back_to_the_image_before(site: Site, tool: str) -> None:
    requeue(dumped(site, tool, 0))
    job, _ = held_in_its_dump(site, tool, 1, TIRESIAS_SAVE_DEADLINE="0.1")
    job.until_logged("it goes back to image 1")
    site.kill()
    assert steps(site) == [1]
    last = start(site, tool, 2)
    ends_well(site, last)
    assert "run 2 resumes from image 1" in last.log.read_text()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_job_that_is_killed_while_its_image_is_written_goes_back_to_the_one_before(site: Site, tool: str) -> None:
    requeue(dumped(site, tool, 0, LARGE))
    job = started(site, tool, 1, LARGE)
    job.until(lambda _: not images(site)).send(signal.SIGUSR2).until(lambda _: bool(images(site)))
    site.kill()
    assert steps(site) == [1]
    ends_well(site, start(site, tool, 2, LARGE))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_program_that_ends_during_its_dump_ends_its_job(site: Site, tool: str) -> None:
    requeue(dumped(site, tool, 0))
    job, gate = held_in_its_dump(site, tool, 1)
    (site.folder / "go").touch()
    job.until(lambda _: (site.folder / "result").exists())
    gate.open()
    assert job.end() == 7
    only_line(job, "the program has ended without a complete image: ")
    assert (site.folder / "result").read_text() == RESULT
    assert steps(site) == [1]


@pytest.mark.parametrize("tool", ["criu", "dmtcp"])
def test_a_script_that_has_ended_before_its_dump_is_not_waited_for(site: Site, tool: str) -> None:
    """The process that dumps, with the signal of the supervisor before it begins."""
    words = [tool, str(site.folder), "1", str(site.folder), str(site.folder), "0"]
    process = subprocess.Popen(
        isolated.command("tiresias.wrappers.images.dump", *words),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {dump.PROGRAM_ENDED}),  # noqa: PLW1509
    )
    process.send_signal(dump.PROGRAM_ENDED)
    _, words_logged = process.communicate(timeout=30)
    assert (process.returncode, words_logged) == (dump.ENDED, "tiresias: no image is dumped: the script has ended\n")


@mounts
@pytest.mark.parametrize("tool", TOOLS)
def test_a_full_folder_of_the_node_is_found_before_the_dump(site: Site, disk: Path, tool: str) -> None:
    """The script runs on, and can be dumped once there is space."""
    resize(disk, "1g")
    job = started(site, tool, 0, TMPDIR=str(disk))
    fill(disk, 200_000)
    job.send(signal.SIGUSR2)
    job.until_logged("the script runs on").until(lambda report: report.state == "running")
    line = only_line(job, "no image is dumped, and the script runs on: the image takes up to ")
    assert f"{disk} on {os.uname().nodename} has 0 MiB: set TMPDIR to a larger folder" in line
    (disk / "filling").unlink()
    requeue(job.send(signal.SIGUSR2).until(lambda report: report.state == "parked"))
    ends_well(site, start(site, tool, 1, TMPDIR=str(disk)))


@mounts
@pytest.mark.parametrize("tool", [pytest.param("dmtcp", marks=MARKS["dmtcp"])])
def test_a_folder_that_is_full_at_the_start(site: Site, disk: Path, tool: str) -> None:
    """DMTCP's own files do not fit: a first run is not preempted, a later one does not begin anew."""
    first = start(site, tool, 0, TMPDIR=str(disk)).until_logged("step 3")
    line = only_line(first, "the script runs and is not preempted: DMTCP needs 16 MiB of ")
    assert f"{disk} on {os.uname().nodename}, which has 0 MiB: set TMPDIR" in line
    site.kill()
    requeue(dumped(site, tool, 0))
    last = start(site, tool, 1, TMPDIR=str(disk))
    assert last.end() == 1
    only_line(last, "is not restored: DMTCP needs 16 MiB of ")
    assert steps(site) == [1]


@mounts
@pytest.mark.parametrize("tool", TOOLS)
def test_a_folder_of_the_node_that_becomes_full_during_the_dump(site: Site, disk: Path, tool: str) -> None:
    """With CRIU the script runs on, and can be dumped again; with DMTCP the job goes back to the image before."""
    resize(disk, "1g")
    requeue(dumped(site, tool, 0, TMPDIR=str(disk)))
    job, gate = held_in_its_dump(site, tool, 1, TMPDIR=str(disk))
    fill(disk, 200_000)
    gate.open()
    if tool == "criu":
        job.until_logged("the script runs on").until(lambda report: report.state == "running")
        assert "criu: " in only_line(job, "the image was not completed, and the script runs on: ")
        (disk / "filling").unlink()
        job.send(signal.SIGUSR2)
    job.until(lambda report: report.state == "parked")
    assert steps(site) == ([2, 1] if tool == "criu" else [1])
    (disk / "filling").unlink(missing_ok=True)
    requeue(job)
    last = start(site, tool, 2, TMPDIR=str(disk))
    ends_well(site, last)
    assert f"run 2 resumes from image {len(steps(site))}" in last.log.read_text()
    if tool == "dmtcp":
        only_line(job, "the program has ended without a complete image: ")
        only_line(job, "run 1 ended in a dump that failed: it goes back to image 1")


@mounts
@pytest.mark.parametrize("tool", TOOLS)
def test_a_full_checkpoint_file_system_leaves_the_program_running(site: Site, disk: Path, tool: str) -> None:
    resize(disk, "1g")
    (site.folder / "checkpoints").symlink_to(disk)
    requeue(dumped(site, tool, 0))
    job = started(site, tool, 1)
    fill(disk, 200_000)
    job.send(signal.SIGUSR2).until_logged("the script continues")
    assert "No space left" in only_line(job, "the image cannot be committed, and the script continues")
    assert steps(site) == [1]
    (disk / "filling").unlink()
    assert [path.name for path in (disk / "7").iterdir() if path.is_dir()] == ["step-1"]
    job.until(lambda report: report.state == "running" and report.ready)
    requeue(job.send(signal.SIGUSR2).until(lambda report: report.state == "parked"))
    ends_well(site, start(site, tool, 2))
    assert log_of(site) == ["begins", *(f"step {number}" for number in range(1, 7))]


@mounts
@pytest.mark.parametrize("tool", TOOLS)
def test_another_node_restores_the_image(site: Site, disk: Path, tool: str) -> None:
    """A node with another name and its own TMPDIR, at the same path."""
    resize(disk, "1g")
    requeue(dumped(site, tool, 0, TMPDIR=str(disk)))
    node = ["unshare", "--uts", "--mount", "/bin/sh", "-c", NODE.format(disk) + '"$@"', "-"]
    last = start(site, tool, 1, prefix=node, TMPDIR=str(disk))
    ends_well(site, last)
    assert "run 1 resumes from image 1" in last.log.read_text()
    assert not list(disk.iterdir())


@pytest.mark.parametrize("tool", TOOLS)
def test_another_tmpdir_on_the_next_node(site: Site, tool: str) -> None:
    """CRIU needs no equal paths, DMTCP refuses them."""
    requeue(dumped(site, tool, 0))
    (site.folder / "scratch").mkdir()
    last = start(site, tool, 1, TMPDIR=str(site.folder / "scratch"))
    if tool == "criu":
        ends_well(site, last)
        return
    assert last.end() == 1
    assert "use the same TMPDIR on all nodes" in only_line(last, "the program is not restored: ")
    assert steps(site) == [1]
    ends_well(site, start(site, tool, 2))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_dump_that_the_node_kills_leaves_the_script_running(site: Site, tool: str) -> None:
    """As the kernel does where the node has no memory left."""
    job, gate = held_in_its_dump(site, tool, 0)
    os.kill(pid_of(site, b"tiresias.wrappers.images.dump"), signal.SIGKILL)
    job.until(lambda report: report.state == "running")
    only_line(job, "the dump ended with status -9, and the script runs on")
    gate.open()
    requeue(job.send(signal.SIGUSR2).until(lambda report: report.state == "parked"))
    ends_well(site, start(site, tool, 1))


@pytest.mark.parametrize("tool", [pytest.param("dmtcp", marks=MARKS["dmtcp"])])
def test_a_commit_that_the_node_kills_leaves_the_image_of_the_node(site: Site, tool: str) -> None:
    job = started(site, tool, 0, LARGE).send(signal.SIGUSR2)
    job.until(lambda _: any(site.folder.glob(f"tiresias-image-*/{dmtcp.SCRIPT}")))
    os.kill(pid_of(site, b"tiresias.wrappers.images.dump"), signal.SIGKILL)
    job.until(lambda report: report.state == "running")
    only_line(job, "the dump ended with status -9, and the program with it")
    ends_well(site, job)
    assert log_of(site) == ["begins", *(f"step {number}" for number in range(1, 7))]


@pytest.mark.parametrize("tool", [pytest.param("dmtcp", marks=MARKS["dmtcp"])])
def test_a_stopped_process_is_not_waited_for(site: Site, tool: str) -> None:
    job = started(site, tool, 0, WITH_CHILD)
    child = pid_of(site, b"1000")
    os.kill(child, signal.SIGSTOP)
    job.send(signal.SIGUSR2).until_logged("the script runs on").until(lambda report: report.state == "running")
    assert f"process {child} is stopped" in only_line(job, "no image is dumped, and the script runs on: ")
    os.kill(child, signal.SIGCONT)
    requeue(job.send(signal.SIGUSR2).until(lambda report: report.state == "parked"))


@pytest.mark.parametrize("tool", [pytest.param("dmtcp", marks=MARKS["dmtcp"])])
def test_a_process_that_is_stopped_during_the_dump_sends_the_job_back(
    site: Site, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DMTCP waits for it without an end: the dump ends the program."""
    job, gate = held_in_its_dump(site, tool, 0)
    place = dmtcp.DmtcpPlace(*_place_of(site))
    monkeypatch.setattr(dmtcp, "STALLED_S", 1.0)
    (first, *_) = place.pids()
    os.kill(first, signal.SIGSTOP)
    with pytest.raises(ProgramLost, match="DMTCP has written nothing for 1 s"):
        place.dump()
    gate.open()
    assert job.end() != control.EXIT_REQUEUE


@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_of_a_job_survives_its_test(site: Site, tool: str) -> None:
    """The processes beside a program that was restored, such as DMTCP's coordinator."""
    requeue(dumped(site, tool, 0))
    job = started(site, tool, 1)
    family = _family(job.process.pid)
    assert len(family) > 2
    site.kill()
    assert not [pid for pid in family if _state(pid) not in ("", "Z")]


def _family(pid: int) -> list[int]:
    text = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [pid, *(each for child in text.split() for each in _family(int(child)))]


def _state(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def _place_of(site: Site) -> tuple[Path, str]:
    """Return folder and port of the run that is dumped."""
    words = Path(f"/proc/{pid_of(site, b'tiresias.wrappers.images.dump')}/cmdline").read_bytes().split(b"\0")
    at = words.index(b"dmtcp")
    return Path(os.fsdecode(words[at + 1])), words[at + 2].decode()
