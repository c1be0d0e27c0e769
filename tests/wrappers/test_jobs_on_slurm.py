"""What befalls jobs on a real Slurm: several steps, containers, requeues by others, the time limit, nodes and ranks that die."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest

from tiresias.checkpoint import Store
from tiresias.wrappers import time_limit

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]
User = Any  # conftest.py
TRAIN = "python3 training.py 400 0.01 result"


# 22.05 passes jobs no end of their time
RELEASES = pytest.mark.parametrize("alice", ["forky", pytest.param("bookworm", marks=pytest.mark.long)], indirect=True)


def trained(steps: int = 400) -> str:
    number = 1
    for step in range(1, steps + 1):
        number = (number * 6364136223846793005 + step) % 2**61
    return f"{steps} {number}"


def resumes(alice: User, job: str) -> None:
    """After its requeue it goes on from the step that it saved, to the end."""
    alice.until_logged("log", "run 1 resumes from step")
    alice.until(lambda: not alice.squeue(job, "%T") or alice.squeue(job, "%T") == "COMPLETED", lambda: alice.log("log"))
    saved, resumed = (re.findall(rf"{word} step (\d+)", alice.log("log")) for word in ("run 0 saved", "resumes from"))
    assert saved == resumed
    assert alice.log("result") == trained(), alice.log("log")


def test_steps_one_after_the_other_and_at_once(alice: User) -> None:
    """A step before the training, one next to it without checkpoints, one after it that must not run yet."""
    alice.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH -N2 -n4 -o log\nsrun -N2 -n2 echo prepared\n"
        f"srun --exact -N1 -n1 sleep 1000 & srun --exact -N1 -n1 {TRAIN} || exit; kill %1; srun -N1 -n1 echo evaluated\n",
    )
    job = alice.submit("job.sh")
    alice.trains(job)
    alice.ask(job)
    alice.until_logged("log", "run 0 saved step")
    alice.until(
        lambda: alice.run("squeue", "-h", "-s", "-j", job, "-o", "%i").stdout.split() in ([], [f"{job}.batch"]),
        lambda: alice.run("squeue", "-s", "-j", job).stdout,
    )
    assert "evaluated" not in alice.log("log")
    alice.requeue(job)
    resumes(alice, job)
    assert alice.log("log").count("evaluated") == 1


def test_a_container_with_its_own_processes_and_without_slurm(alice: User) -> None:
    """Its pids mean nothing outside, so no signal can reach it: the stop file does."""
    container = (
        "unshare --user --map-current-user --pid --fork env -i PYTHONPATH=/opt/tiresias/src $(env | grep ^TIRESIAS_)"
    )
    inside = f"{container} /usr/bin/{TRAIN}"
    alice.write("job.sh", f"#!/bin/bash\n#SBATCH -o log\n{inside}\n")
    job = alice.submit("job.sh")
    alice.trains(job)
    alice.ask(job)
    alice.until_logged("log", "checkpoint signal sent to 0 processes on this node")
    alice.until_logged("log", "run 0 saved step")
    alice.requeue(job)
    resumes(alice, job)


def test_a_script_that_requeues_itself(alice: User) -> None:
    """`--signal=B:USR1@60` with a trap, as many have it: the signal is the script's, the requeue finds what was saved last."""
    trap = "trap 'echo mine; scontrol requeue $SLURM_JOB_ID' USR1"
    alice.write("job.sh", f"#!/bin/bash\n#SBATCH -o log\n{trap}\n{TRAIN} 50 & while ! wait; do :; done\n")
    job = alice.submit("--signal=B:USR1@60", "job.sh")
    alice.until(
        lambda: bool(re.search(r'"step": [1-9]', alice.report_text(job))),
        lambda: alice.report_text(job) + alice.log("log"),
    )
    alice.cluster.run(["scancel", "--batch", "--signal=USR1", job])
    alice.until_logged("log", "mine")
    alice.comes_back(job)
    alice.until_logged("log", "run 1 resumes from step")
    alice.until_logged("result", trained())


def test_a_node_that_fails(alice: User) -> None:
    """Slurm requeues the job by itself; it goes on from its last checkpoint on another node."""
    alice.write("job.sh", f"#!/bin/bash\n#SBATCH -o log\n{TRAIN} 20\n")
    job = alice.submit("job.sh")
    alice.until(
        lambda: bool(re.search(r'"step": [1-9]', alice.report_text(job))),
        lambda: alice.report_text(job) + alice.log("log"),
    )
    node = alice.squeue(job, "%N")
    for what in (f"slurmstepd: .{job}", f"job0*{job}/slurm_script", "training.py 400"):  # as when the power goes
        alice.cluster.run(["pkill", "-KILL", "-f", what], check=False)
    alice.cluster.run(["scontrol", "update", f"nodename={node}", "state=down", "reason=test"])
    try:
        alice.comes_back(job)
        alice.until_logged("log", "run 1 begins; run 0 was cut off before it could save (node failure, requeue)")
        alice.until_logged("result", trained())
    finally:
        # it may be back already
        alice.cluster.run(["scontrol", "update", f"nodename={node}", "state=resume"], check=False)
    resumed = re.findall(r"run 1 resumes from step (\d+)", alice.log("log"))
    assert len(resumed) == 1
    assert int(resumed[0]) % 20 == 0


def test_a_rank_that_runs_out_of_memory(alice: User) -> None:
    """The kernel kills one of four: tsrun ends the others, the job fails with a line that states what is left."""
    alice.write("job.sh", "#!/bin/bash\n#SBATCH -N2 -n4 -o log\ntsrun python3 rank_program.py 0.01\n")
    job = alice.submit("job.sh")
    alice.trains(job)
    (ranks,) = alice.cluster.shared.glob(f"w/control/*/{job}/ranks")
    alice.until(lambda: len(list(ranks.iterdir())) == 4, lambda: alice.log("log"))
    victim = sorted(path.name.split("-")[-2] for path in ranks.iterdir())[-1]
    alice.cluster.run(["kill", f"-{signal.SIGKILL:d}", victim])
    alice.until_logged(
        "log", "run 0 ended with exit code 137: a process was killed, as the kernel does when memory runs out"
    )
    assert "there is no checkpoint" in alice.log("log")
    alice.until(lambda: alice.squeue(job, "%T") in ("FAILED", ""), lambda: alice.squeue(job, "%T"))


def test_ranks_that_are_killed_when_the_first_has_left(alice: User) -> None:
    """tsrun ends a step whose first task leaves with 99; by then all have saved."""
    alice.write("job.sh", "#!/bin/bash\n#SBATCH -N2 -n4 -o log\ntsrun python3 rank_program.py 0.01\n")
    job = alice.submit("job.sh")
    alice.until(lambda: alice.log("log").count("start 0") == 4, lambda: alice.log("log"))
    alice.ask(job)
    alice.until_logged("log", "run 0 saved step")
    alice.requeue(job)
    (step,) = set(re.findall(r"^stop (\d+)", alice.log("log"), re.MULTILINE))
    alice.until(lambda: alice.log("log").count(f"start {step} ") == 4, lambda: alice.log("log"))


@pytest.mark.slow
@pytest.mark.long
@RELEASES
def test_a_time_limit_of_a_minute_and_no_requeue_from_outside(alice: User) -> None:
    """It saves half a minute before its end, waits for a requeue, asks for it itself, and goes on under the same id."""
    alice.write("job.sh", "#!/bin/bash\n#SBATCH -o log --time=1\npython3 training.py 4000 0.01 result\n")
    job = alice.submit("job.sh")
    alice.until_logged("log", "the time limit is near: checkpoint signal sent to")
    alice.until_logged("log", "before its time limit and waits for the requeue")
    alice.until_logged("log", "requeued by itself")
    alice.comes_back(job)
    alice.until_logged("log", "run 1 resumes from step")
    alice.until_logged("result", trained(4000))
    assert Store(alice.cluster.shared / "w/checkpoints" / job).steps()
    assert alice.log("log").startswith("tiresias: run 0 starts"), "the log of the first run is gone"


def test_slurms_words_for_a_job_that_is_never_requeued(alice: User) -> None:
    job = alice.run("sbatch", "--parsable", "--no-requeue", "-o", "/dev/null", "--wrap", "sleep 60").stdout.strip()
    alice.until(lambda: alice.squeue(job, "%T") == "RUNNING", lambda: alice.squeue(job, "%T"))
    assert time_limit.is_refused(alice.run("scontrol", "requeue", job).stderr.strip().splitlines()[-1])
    alice.run("scancel", job)


@pytest.mark.slow
@RELEASES
def test_a_time_limit_and_no_requeue(alice: User) -> None:
    """It saves, ends at once and releases its GPUs, half a minute before its limit."""
    alice.write("job.sh", "#!/bin/bash\n#SBATCH -o log --time=1 --no-requeue\npython3 training.py 9000 0.01 result\n")
    job = alice.submit("job.sh")
    alice.until_logged("log", "The job ends here and releases its GPUs; its checkpoints are in")

    def shown() -> str:
        return str(alice.run("scontrol", "show", "job", job).stdout)

    alice.until(lambda: "JobState=FAILED" in shown(), shown)
    assert "ExitCode=99:0" in shown()
    assert re.search(r"RunTime=00:00:[1-4]", shown()), shown()
    assert Store(alice.cluster.shared / "w/checkpoints" / job).steps()


@pytest.mark.slow
def test_a_time_limit_that_an_administrator_extends(alice: User) -> None:
    """It is not saved for the limit that its environment has, and ends in its first run."""
    alice.write("job.sh", "#!/bin/bash\n#SBATCH -o log --time=1\npython3 training.py 4000 0.01 result\n")
    job = alice.submit("job.sh")
    alice.trains(job)
    alice.cluster.run(["scontrol", "update", f"job={job}", "TimeLimit=5"])
    alice.until_logged("log", "the time limit was changed by +4 min: the run ends in 2")
    alice.until_logged("result", trained(4000))
    assert "the time limit is near" not in alice.log("log")
    assert "Restarts=0" in alice.run("scontrol", "show", "job", job).stdout


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("alice", ["bookworm"], indirect=True)
def test_slurmctld_is_down_when_a_job_asks_for_its_end(alice: User) -> None:
    """22.05: the job asks again, and saves before its limit."""
    alice.write("job.sh", "#!/bin/bash\n#SBATCH -o log --time=2\npython3 training.py 100000 0.01 result\n")
    job = alice.submit("job.sh")
    alice.trains(job)
    alice.cluster.kill_slurmctld()
    try:
        asked = ["pgrep", "-x", "squeue"]
        alice.until(lambda: alice.cluster.run(asked, check=False).stdout != "", lambda: alice.log("log"))
        alice.until(lambda: alice.cluster.run(asked, check=False).stdout == "", lambda: alice.log("log"))
    finally:
        alice.cluster.start_slurmctld()
    alice.until_logged("log", "the time limit is near: checkpoint signal sent to", seconds=120)
    alice.until_logged("log", "before its time limit and waits for the requeue")
    alice.run("scancel", job)
