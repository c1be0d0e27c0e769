"""A program without checkpoints is preempted by the controller on a real Slurm and restored by DMTCP, and is rehearsed there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.wrappers.images import image_place

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.long,
    pytest.mark.skipif(bool(image_place.kind("dmtcp").missing()), reason="DMTCP is not in PATH: docs/how-to/dmtcp.md"),
]
PROGRAM = """\
import sys, time
for step in range(1, int(sys.argv[1]) + 1):
    print("line", step, flush=True)
    time.sleep(0.05)
"""
PIPELINE = """\
python3 -c '{program}' {steps} |
    awk '{{ sum = (sum * 31 + $2) % 1000003; print NR, sum; fflush() }}' > trace-$SLURM_JOB_ID
"""
PATH = "/shared/dmtcp/bin:/usr/local/bin:/usr/bin:/bin"
ENV = {"PATH": PATH, "LD_LIBRARY_PATH": "/shared/dmtcp/lib"}
ROOTS = {
    "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control",
    "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints",
}


def expected(steps: int) -> list[str]:
    number, lines = 0, []
    for step in range(1, steps + 1):
        number = (number * 31 + step) % 1000003
        lines.append(f"{step} {number}")
    return lines


def prepared(centre: Centre) -> Path:
    """Install DMTCP on the nodes; return a folder for all users."""
    installed = Path(str(shutil.which("dmtcp_launch"))).resolve().parents[1]
    shutil.copytree(installed, centre.cluster.shared / "dmtcp", dirs_exist_ok=True)
    for library in (
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libatomic.so.1",
    ):  # which the small tree lacks; they are Debian 12's
        shutil.copy(f"/usr/lib/x86_64-linux-gnu/{library}", centre.cluster.shared / "dmtcp" / "lib")
    folder = centre.cluster.shared / "out" / "images"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    return folder


@pytest.mark.parametrize("any_centre", ["commands@bookworm"], indirect=True)
def test_a_pipeline_is_dumped_for_another_job_and_goes_on(any_centre: Centre) -> None:
    """Four jobs hold all nodes, one each; a small job of another user needs a GPU of one of them."""
    centre, steps = any_centre, 500
    folder = prepared(centre)
    jobs = [
        centre.submit(
            "--chdir=/shared/out/images",
            "--nodes=1",
            "--gpus-per-node=4",
            gpus=0,
            by="tsbatch",
            command=PIPELINE.format(program=PROGRAM, steps=steps),
            env={"TIRESIAS_CHECKPOINT": "dmtcp", **ENV},
        )
        for _ in range(4)
    ]
    for job in jobs:
        centre.wait_until_preemptable(job)
    small = centre.submit(command="sleep 0.2", user="bob")
    centre.wait_for_state(small, "COMPLETED")
    restarts = {job: int(centre.wait_for_state(job, "COMPLETED", seconds=120)["Restarts"]) for job in jobs}
    assert sum(restarts.values()) == 1, "\n".join(map(centre.output, jobs))
    output = centre.output(max(jobs, key=lambda job: restarts[job]))
    assert "resumes from image 1" in output, output
    for job in jobs:
        assert (folder / f"trace-{job}").read_text().splitlines() == expected(steps)


def rehearsed(centre: Centre, *words: str) -> tuple[int, dict[str, Any], str]:
    """Rehearse a script of a pipeline as a user; return the exit code, the findings and the reports."""
    script = (
        f"#!/bin/bash\n#SBATCH --gpus=1\n{PIPELINE.format(program=PROGRAM, steps=300)}mv trace-$SLURM_JOB_ID trace\n"
    )
    (prepared(centre) / "job.sh").write_text(script)
    command = ["tiresias", "rehearse", "--after", "2", "--startup", "20", "--json", "job.sh", *words]
    done = centre.cluster.run(
        command, user="alice", env=ROOTS | ENV, cwd="/shared/out/images", check=False, timeout=170
    )
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("any_centre", ["commands@bookworm"], indirect=True)
def test_a_rehearsal_with_the_option(any_centre: Centre) -> None:
    code, found, reported = rehearsed(any_centre, "--checkpoint=dmtcp")
    words = "\n".join(one["what"] for one in found["findings"])
    assert code == 0, words + reported
    assert "resumed from step 1 on other nodes" in words


@pytest.mark.parametrize("any_centre", ["commands@bookworm"], indirect=True)
def test_a_rehearsal_finds_the_tool_that_works(any_centre: Centre) -> None:
    """Not CRIU, in the place of which a program prints its version: the cluster's container covers parts of /proc."""
    folder = prepared(any_centre).parents[1] / "dmtcp" / "bin"
    (folder / "criu").write_text("#!/bin/sh\necho Version: 4.2.1\n")
    (folder / "criu").chmod(0o755)
    code, found, reported = rehearsed(any_centre)
    assert code == 1
    last = found["findings"][-1]
    assert last["what"] == "with tsbatch --checkpoint=dmtcp this job can be preempted as it is", reported
    (line,) = [line for line in reported.splitlines() if "criu" in line]
    reason = "/proc cannot be mounted in a user namespace, as in some containers, here"
    assert line == f"rehearse: not rehearsed with --checkpoint=criu: {reason}"
