"""Jobs of `tsbatch --checkpoint=dmtcp` and `=criu`, run by hand as slurmd would. The tool must be in PATH."""

from __future__ import annotations

import shutil
import signal

import pytest

from tests.wrappers.images.image_runs import (
    LOOP,
    RESULT,
    TOOLS,
    Site,
    dumped,
    ends_well,
    log_of,
    only_line,
    requeue,
    start,
    started,
    steps,
)

pytestmark = pytest.mark.long


@pytest.mark.parametrize("tool", TOOLS)
def test_a_program_continues_from_its_image_in_the_next_run(site: Site, tool: str) -> None:
    for restart in (0, 1):
        requeue(dumped(site, tool, restart))
    last = start(site, tool, restart=2)
    ends_well(site, last)
    assert log_of(site) == ["begins", *(f"step {number}" for number in range(1, 7))]
    assert "run 2 resumes from image 2" in last.log.read_text()
    assert not list(site.folder.glob("tiresias-image-*"))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_file_is_cut_to_its_length_at_the_dump(site: Site, tool: str) -> None:
    """The run after the image writes more and is killed; the next one restores the same image."""
    script = """\
exec 3> written; echo first >&3; echo "step 3"
until [ -e more ]; do sleep 0.1; done
echo second >&3; echo "wrote more"
until [ -e go ]; do sleep 0.1; done
echo third >&3
"""
    requeue(dumped(site, tool, 0, script))
    (site.folder / "more").touch()
    killed = start(site, tool, 1, script)
    killed.until(lambda _: "wrote more" in log_of(site))  # in Slurm one log; here CRIU restores the first run's
    site.kill()
    assert (site.folder / "written").read_text() == "first\nsecond\n"
    (site.folder / "go").touch()
    assert start(site, tool, 2, script).end() == 0
    assert (site.folder / "written").read_text() == "first\nsecond\nthird\n"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_damaged_image_is_set_aside_and_the_one_before_is_restored(site: Site, tool: str) -> None:
    for restart in (0, 1):
        requeue(dumped(site, tool, restart))
    data = site.folder / "checkpoints" / "7" / "step-2" / "rank-0.bin"
    with data.open("r+b") as file:
        file.seek(100_000)
        file.write(b"damaged")
    last = start(site, tool, 2)
    ends_well(site, last)
    log = last.log.read_text()
    assert "checkpoint of step 2 is set aside as damaged-step-2" in log
    assert "run 2 resumes from image 1" in log


@pytest.mark.parametrize("tool", TOOLS)
def test_a_changed_binary_is_refused_in_one_line(site: Site, tool: str) -> None:
    shutil.copy("/bin/bash", site.folder / "shell")
    script = f"./shell -c '{LOOP}'"
    requeue(dumped(site, tool, 0, script))
    with (site.folder / "shell").open("ab") as file:
        file.write(b"changed")
    last = start(site, tool, 1, script)
    assert last.end() == 1
    refusal = only_line(last, "is not restored")
    assert f"was made with other files: {site.folder}/shell has changed since" in refusal
    assert steps(site) == [1]


@pytest.mark.parametrize("tool", TOOLS)
def test_an_image_that_cannot_be_committed_leaves_the_program_running(site: Site, tool: str) -> None:
    job = started(site, tool, 0)
    store = site.folder / "checkpoints" / "7"
    store.rename(site.folder / "away")
    store.write_text("no folder")
    job.send(signal.SIGUSR2).until_logged("the image cannot be committed, and the script continues")
    ends_well(site, job)
    assert log_of(site) == ["begins", *(f"step {number}" for number in range(1, 7))]


@pytest.mark.parametrize("tool", TOOLS)
def test_without_a_requeue_the_program_continues_from_its_image(site: Site, tool: str) -> None:
    job = dumped(site, tool, 0, TIRESIAS_PARK_TIMEOUT="0.1")
    (site.folder / "go").touch()
    job.until_logged("the script runs again, from image 1")
    assert job.end() == 7
    assert (site.folder / "result").read_text() == RESULT


@pytest.mark.parametrize("tool", TOOLS)
def test_a_node_without_the_tool_does_not_begin_a_dumped_program_again(site: Site, tool: str) -> None:
    requeue(dumped(site, tool, 0))
    old = site.folder / "criu"
    old.write_text("#!/bin/sh\necho Version: 3.17.1\n")
    old.chmod(0o755)
    last = start(site, tool, 1, PATH=f"{site.folder}:/usr/bin:/bin")
    assert last.end() != 0
    reason = {"dmtcp": "dmtcp_launch is not in PATH", "criu": f"{old} is older than 4.0: Version: 3.17"}[tool]
    assert f"is not restored: {reason}" in last.log.read_text()
    assert "begins" not in last.log.read_text()
