"""tsbatch, tsrun and the supervisor on a real Slurm."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tiresias.checkpoint import Store

pytestmark = pytest.mark.sandbox
User = Any  # conftest.py


def plain(text: str) -> str:
    """Without what differs between any two calls: job ids, the private copy's folder."""
    text = re.sub(r"/tmp/tsbatch-[\w-]+/", "", re.sub(r"\b(job|Job) \d+", "job N", text))
    return re.sub(r"^\d+$", "N", re.sub(r"at \d{4}-\S+|tiresias: .*\n", "", text), flags=re.MULTILINE)


INVOCATIONS: list[tuple[list[str], str]] = [
    (["job.sh"], ""),
    (["--parsable", "job.sh", "an argument"], ""),
    (["--test-only", "job.sh"], ""),
    (["--test-only", "--parsable", "-N2", "./job.sh"], ""),
    (["--quiet", "job.sh"], ""),
    (["-J", "named", "--hold", "job.sh"], ""),
    (["-a", "0-3%2", "job.sh"], ""),
    (["--wrap", "true"], ""),
    (["--wrap=true", "--parsable"], ""),
    (["--wrap=true", "job.sh"], ""),
    (["--export=NONE", "job.sh"], ""),
    ([], "#!/bin/sh\ntrue\n"),
    ([], "true\n"),
    ([], ""),
    (["nofile.sh"], ""),
    (["noshebang.sh"], ""),
    (["dos.sh"], ""),
    (["bad-option.sh"], ""),
    (["--no-such-option", "job.sh"], ""),
    (["--nodes", "job.sh"], ""),
    (["-N", "99", "job.sh"], ""),
    (["--gres=gpu:99", "job.sh"], ""),
    (["-p", "nowhere", "job.sh"], ""),
    (["--dependency=afterok:999999", "job.sh"], ""),
    (["het.sh"], ""),
    (["-n1", ":", "-n1", "job.sh"], ""),
    (["--version"], ""),
    (["--help"], ""),
    (["--usage"], ""),
    (["--wait", "fails.sh"], ""),
]


def test_standard_output_and_exit_code_are_sbatchs(alice: User) -> None:
    alice.write("job.sh", "#!/bin/sh\ntrue\n")
    alice.write("noshebang.sh", "true\n")
    alice.write("dos.sh", "#!/bin/sh\r\ntrue\r\n")
    alice.write("bad-option.sh", "#!/bin/sh\n#SBATCH --no-such\ntrue\n")
    alice.write("het.sh", "#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n1\ntrue\n")
    alice.write("fails.sh", "#!/bin/sh\nexit 7\n")
    for words, text in INVOCATIONS:
        one, other = (alice.run(command, *words, input=text) for command in ("sbatch", "tsbatch"))
        assert (other.returncode, plain(other.stdout)) == (one.returncode, plain(one.stdout)), (words, one, other)
        if one.returncode:
            assert plain(other.stderr) == plain(one.stderr), words


ENDS = [f"exit {code}" for code in (0, 1, 77, 99, 255)] + [f"kill -{number} $$" for number in (9, 15, 11, 2)]


def test_a_job_ends_as_under_sbatch(alice: User) -> None:
    """What --wait returns, and the exit code, signal and state that Slurm records."""

    def ended(command: str, number: int) -> tuple[int, list[str]]:
        done = alice.run(command, "--wait", "--parsable", f"end{number}.sh")
        shown = alice.run("scontrol", "show", "job", done.stdout.strip()).stdout
        return done.returncode, re.findall(r"(?:JobState|ExitCode)=\S+", shown)

    for number, end in enumerate(ENDS):
        alice.write(f"end{number}.sh", f"#!/bin/bash\n#SBATCH -o /dev/null\n{end}\n")
    calls = [(command, number) for number in range(len(ENDS)) for command in ("sbatch", "tsbatch")]
    with ThreadPoolExecutor(len(calls)) as pool:
        found = list(pool.map(lambda call: ended(*call), calls))
    assert [len(one[1]) for one in found] == [2] * len(found)
    assert dict(zip(ENDS, found[1::2], strict=True)) == dict(zip(ENDS, found[::2], strict=True))
    assert "ExitCode=0:9" in found[2 * ENDS.index("kill -9 $$") + 1][1]


@pytest.mark.parametrize(
    ("words", "script", "expected"),
    [
        (["named.sh"], "#!/bin/sh\n", "named.sh|1|append"),
        (["-J", "mine", "x.sh"], "#!/bin/sh\n", "mine|1|append"),
        (
            ["x.sh"],
            "#!/bin/sh\n#SBATCH --job-name=own_options --no-requeue\n#SBATCH --open-mode=truncate\n",
            "own_options|0|truncate",
        ),
        (["--no-requeue", "x.sh"], "#!/bin/sh\n", "x.sh|0|append"),
        (["--wrap", "sleep 60"], "", "wrap|1|append"),
        ([], "#!/bin/sh\nsleep 60\n", "sbatch|1|append"),
    ],
)
def test_the_users_own_options_win(alice: User, words: list[str], script: str, expected: str) -> None:
    alice.write(words[-1] if words else "unused", script + "sleep 60\n")
    job = alice.submit("--hold", *words, input=script)
    shown = alice.run("scontrol", "show", "job", job).stdout
    name, requeue = (re.search(rf"{key}=(\S+)", shown) for key in ("JobName", "Requeue"))
    assert name
    assert requeue
    mode = "append" if "OpenMode" not in shown else (re.search(r"OpenMode=(\S+)", shown) or [""])[1]
    assert [name[1], requeue[1]] == expected.split("|")[:2]
    assert mode in (expected.split("|")[2], "append")


def test_preempted_twice_on_slurm(alice: User) -> None:
    """Signal to the batch shell, wait for the word, requeue: the log is appended to and the result is that of one run."""
    alice.write("train.sh", "#!/bin/bash\n#SBATCH -o log\npython3 training.py 400 0.01 result\necho after: $?\n")
    job = alice.submit("train.sh")
    for run in range(2):
        alice.until_logged("log", "resumes from step" if run else "starts from the beginning")
        alice.until(lambda: '"ready": true' in alice.report_text(job), lambda: alice.report_text(job))
        alice.cluster.run(["scancel", "--batch", "--signal=USR2", job])
        alice.until_logged("log", f"run {run} saved step")
        alice.requeue(job)
    alice.until_logged("log", "after: 0")
    number = 1
    for step in range(1, 401):
        number = (number * 6364136223846793005 + step) % 2**61
    assert alice.log("result") == f"400 {number}"
    saved = re.findall(r"saved step (\d+)", alice.log("log"))
    assert re.findall(r"resumes from step (\d+)", alice.log("log")) == saved
    assert len(saved) == 2


@pytest.mark.parametrize(("launcher", "export"), [("srun", "ALL"), ("tsrun", "NONE")])
def test_four_ranks_on_two_nodes(alice: User, launcher: str, export: str) -> None:
    """srun's ranks register, stop together and resume; with tsrun also where the job exports nothing."""
    path = "export PATH=/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/tiresias/src"
    options = "--export=PATH,PYTHONPATH" if export == "NONE" else ""
    alice.write(
        "job.sh", f"#!/bin/bash\n#SBATCH -N2 -n4 -o log\n{path}\n{launcher} {options} python3 rank_program.py 0.01\n"
    )
    job = alice.submit(f"--export={export}", "job.sh")
    alice.until(lambda: alice.log("log").count("start 0") == 4, lambda: alice.log("log") + alice.run("squeue").stdout)
    alice.cluster.run(["scancel", "--batch", "--signal=USR2", job])
    alice.until_logged("log", "run 0 saved step")
    stops = re.findall(r"^stop (\d+)", alice.log("log"), re.MULTILINE)
    assert len(stops) == 4
    assert len(set(stops)) == 1
    alice.requeue(job)
    alice.until(lambda: alice.log("log").count(f"start {stops[0]} ") == 4, lambda: alice.log("log"))
    found = alice.run("tiresias", "checkpoint", "verify", "--json", f"{alice.env['TIRESIAS_CHECKPOINT_ROOT']}/{job}")
    assert '"world_size": 4' in found.stdout, found.stderr


def test_an_array_has_a_folder_a_task(alice: User) -> None:
    job = alice.submit(
        "-a", "1-2", "-o", "log-%a", "--wrap", "basename $TIRESIAS_CONTROL $TIRESIAS_RESTART; echo $TIRESIAS_CONTROL"
    )
    for task in (1, 2):
        alice.until_logged(f"log-{task}", f"/{job}_{task}\n")


def test_scancel_ends_a_job_at_once_and_the_script_gets_one_sigterm(alice: User) -> None:
    alice.write(
        "trap.sh",
        "#!/bin/bash\n#SBATCH -o log\ntrap 'echo TERM' TERM; echo up\nfor i in $(seq 30); do sleep 0.1; done\nexit 3\n",
    )
    job = alice.submit("trap.sh")
    alice.until_logged("log", "up")
    alice.cluster.run(["scancel", job])
    alice.until(lambda: alice.squeue(job, "%T") == "", lambda: alice.run("squeue").stdout)
    assert alice.log("log").count("TERM\n") == 1, alice.log("log")


def test_without_a_control_root_the_job_runs(alice: User) -> None:
    done = alice.cluster.run(
        ["tsbatch", "--parsable", "-o", f"{alice.here}/log", "--wrap", "echo ran"],
        user="alice",
        cwd=alice.here,
        env={"TIRESIAS_CONTROL_ROOT": "/proc/nowhere", "TIRESIAS_CHECKPOINT_ROOT": "/proc/nowhere"},
    )
    assert done.returncode == 0
    alice.until_logged("log", "ran")
    assert "this job will not be preempted" in alice.log("log")


def test_checkpoints_are_the_users_alone(alice: User) -> None:
    alice.write("train.sh", "#!/bin/bash\n#SBATCH -o log\npython3 training.py 100000 0.01 result\n")
    job = alice.submit("train.sh")
    alice.until_logged("log", "starts from the beginning")
    root = alice.cluster.shared / "w"
    assert (root / "checkpoints" / job).stat().st_mode & 0o777 == 0o700
    (control,) = root.glob(f"control/*/{job}")
    assert control.stat().st_mode & 0o777 == 0o755
    assert Store(root / "checkpoints" / job).steps() == []


# the scheduling note of tsbatch


@pytest.fixture
def led(alice: User) -> Iterator[User]:
    """As where a controller leads on this host: its lease is what job_submit.lua reads, too."""
    lease = f"{int(time.time()) + 600}\ngpu\ngpu\n5\nbob\nvip\n"
    alice.cluster.run(["sh", "-c", "cat > /run/tiresias/lease"], user="slurm", input=lease)
    yield alice
    alice.cluster.run(["rm", "-f", "/run/tiresias/lease", "/run/tiresias/arrivals"], user="slurm")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--gpus=1", "plain.sh"],
            "Tiresias schedules it in partition gpu; not preempted unless",
        ),
        (["--gpus=1", "train.sh"], "in partition gpu; may be preempted: training.py names tiresias.checkpoint\n"),
        (
            ["--gpus=1", "--no-requeue", "train.sh"],
            "in partition gpu; never preempted, as --no-requeue keeps it from coming back\n",
        ),
        (
            ["--gpus=1", "-p", "other", "train.sh"],
            "Slurm alone schedules it: partition other is not managed; saves before its time",
        ),
        (["plain.sh"], "Slurm alone schedules it: it asks for no GPU; no checkpointing seen in the script\n"),
    ],
)
def test_the_scheduling_note_of_a_job(led: User, words: list[str], expected: str) -> None:
    led.write("plain.sh", "#!/bin/sh\n# no other test's script\ntrue\n")
    led.write("train.sh", "#!/bin/sh\npython3 training.py 10 0.01 result\n")
    before = {*led.cluster.shared.glob("w/control/*/*")}
    done = led.run("tsbatch", "--hold", *words)
    assert re.fullmatch(r"Submitted batch job \d+\n", done.stdout)
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1
    tried = led.run("tsbatch", "--test-only", *words)
    assert tried.returncode == 0
    assert (
        f"nothing is submitted, but it would be under Tiresias' supervisor; {done.stderr.partition('tiresias: ')[2]}"
        in tried.stderr
    )
    assert {*led.cluster.shared.glob("w/control/*/*")} == before, "no control folder is made at a submission"


def test_programs_read_a_job_id_and_no_more(led: User) -> None:
    led.write("plain.sh", "#!/bin/sh\ntrue\n")
    for words in (["--parsable"], ["--quiet"], ["--parsable", "--test-only"]):
        one, other = (led.run(command, *words, "plain.sh") for command in ("sbatch", "tsbatch"))
        assert (plain(other.stdout), other.stderr.count("\n")) == (plain(one.stdout), one.stderr.count("\n"))
        assert "tiresias" not in other.stderr


def test_the_next_job_of_a_script_gets_the_result_of_the_last_one(alice: User) -> None:
    alice.write("train.sh", "#!/bin/bash\n#SBATCH -o log\npython3 training.py 5 0.01 result\n")
    job = alice.submit("train.sh")
    alice.until(lambda: alice.squeue(job, "%T") == "", lambda: alice.log("log") + alice.run("squeue").stdout)
    assert (
        f"may be preempted: job {job} of this script could save"
        in alice.run("tsbatch", "--test-only", "train.sh").stderr
    )
