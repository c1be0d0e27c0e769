"""The supervisor with real scripts, signals and a real training program; only Slurm's part (variables, signals) is played."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import Store
from tiresias.protocol import control
from tiresias.protocol.job_kind import script_hash
from tiresias.wrappers import batch_script, isolated, previous_job, registered_ranks
from tiresias.wrappers import job as jobs

# what any script sees


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 99", 99),
        ("exit 137", 137),
        *((f"kill -{n} $$", -n) for n in (1, 2, 9, 11, 15, 34, 64)),
    ],
)
def test_the_job_ends_as_the_script_does(site: Any, script: str, code: int) -> None:
    """By the same exit code or the same signal."""
    job = site.start(script)
    assert job.end() == code
    assert job.report() == control.JobReport(0, "ended", False, -1)


def without_internal_signals(line: str) -> str:
    """posix_spawn(3) of glibc leaves its two internal signals, 32 and 33, ignored."""
    if not line.startswith("SigIgn:"):
        return line
    return f"SigIgn:\t{int(line.split()[1], 16) & ~0x180000000:016x}"


def test_the_script_runs_as_it_would_alone(site: Any) -> None:
    """Same variables, arguments, folder, signals, standard files; its own interpreter; no file remains."""
    script = 'printf "%s|" "$@"; pwd; cat; basename "$0"; grep -E "^Sig(Blk|Ign|Cgt)" /proc/self/status; env | sort'
    env = {"PYTHONPATH": "/my/own", "LD_PRELOAD": "", "PYTHONHOME": "", "TMPDIR": str(site.folder)}
    job = site.start(script, "a b", "", "$x", **env)
    assert job.end() == 0
    plain = subprocess.run(
        ["/bin/bash", "-c", script, "slurm_script", "a b", "", "$x"], env={**os.environ, **env}, cwd=site.folder,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    skip = ("TIRESIAS_", "_=", "SHLVL", "PYTEST", "SLURM_")
    lines = [[line for line in text.splitlines() if not line.startswith(skip)] for text in (job.log.read_text(), plain)]
    supervised, alone = ([without_internal_signals(line) for line in some] for some in lines)
    assert supervised == alone
    assert {path.name for path in site.folder.iterdir()} == {"log-0", "slurm_script-0", "control", "checkpoints"}


def test_the_jobs_variables(site: Any) -> None:
    """Those of a surrounding job do not count."""
    job = site.start(
        "env | grep ^TIRESIAS_ | sort", restart=2, TIRESIAS_CONTROL="/other", TIRESIAS_RESTART="9", TIRESIAS_RUN_ID="x"
    )
    assert job.end() == 0
    assert job.log.read_text().splitlines() == [
        f"TIRESIAS_CHECKPOINT_DIR={site.folder}/checkpoints/7",
        f"TIRESIAS_CHECKPOINT_ROOT={site.folder}/checkpoints",
        f"TIRESIAS_CONTROL={site.control()}",
        f"TIRESIAS_CONTROL_ROOT={site.folder}/control",
        "TIRESIAS_RESTART=2",
        "TIRESIAS_RUN_ID=slurm-7",
        "TIRESIAS_SCRIPT=" + script_hash(b"#!/bin/bash\nenv | grep ^TIRESIAS_ | sort\n"),
        "TIRESIAS_SIGNAL=USR2",
    ]


def test_what_a_job_showed_is_left_for_the_next_of_its_script(site: Any) -> None:
    root = site.folder / "control"

    def shown(script: str) -> previous_job.PreviousJob | None:
        return previous_job.of_script(root, script_hash(f"#!/bin/bash\n{script}\n".encode()))

    assert site.start("exit 3").end() == 3
    assert shown("exit 3") is None, "it may have failed before its program could report anything"
    assert site.start("exit 0", job="8", TIRESIAS_SCRIPT="0" * 16).end() == 0
    assert shown("exit 0") == previous_job.PreviousJob("8", False, -1)
    job = site.start(site.train, job="9")
    step = preempted(site, job, "9")
    assert shown(site.train) == previous_job.PreviousJob("9", True, step)
    assert (root / str(os.getuid()) / "scripts").stat().st_mode & 0o777 == 0o700


def preempted(site: Any, job: Any, name: str) -> int:
    """The step that it saved."""

    def report() -> control.JobReport:
        return control.report(site.folder / "control", os.getuid(), name)

    def until(state: str) -> None:
        deadline = time.monotonic() + 30
        while not (report().ready if state == "ready" else report().state == state):
            assert time.monotonic() < deadline, report()
            time.sleep(0.01)

    until("ready")
    job.send(signal.SIGUSR2)
    until("parked")
    job.send(signal.SIGTERM)
    assert job.end() == control.EXIT_REQUEUE
    return report().step


@pytest.mark.parametrize("kind", ["", "../../etc", "0" * 15, "G" * 16])
def test_only_a_hash_names_a_file(tmp_path: Path, kind: str) -> None:
    previous_job.note(tmp_path / "0" / "7", kind, previous_job.PreviousJob("7", True, 1))
    assert not list(tmp_path.iterdir())


def test_the_run_id_is_the_same_over_all_runs(site: Any) -> None:
    for restart in range(3):
        moment = {"SLURM_JOB_START_TIME": str(1000 + restart), "SLURM_CLUSTER_NAME": "mine"}
        assert site.start("echo $TIRESIAS_RUN_ID", restart=restart, **moment).end() == 0
    assert [(site.folder / f"log-{restart}").read_text() for restart in range(3)] == ["mine-7-1000\n"] * 3


def test_an_array_task_has_its_own_folder(site: Any) -> None:
    job = site.start("echo $TIRESIAS_CONTROL", SLURM_ARRAY_JOB_ID="40", SLURM_ARRAY_TASK_ID="2", job="43")
    assert job.end() == 0
    assert job.log.read_text() == f"{site.control('40_2')}\n"


def test_another_interpreter(site: Any) -> None:
    job = site.start("")
    job.end()
    path = site.folder / "slurm_script-0"
    path.write_bytes(
        path.read_bytes().replace(
            b"#!/bin/bash\n\n", f"#!{sys.executable} -u\nimport sys; sys.exit(len(sys.argv))\n".encode()
        )
    )
    assert (
        subprocess.run(["/bin/sh", str(path), "x", "y"], env={"SLURM_JOB_ID": "8"}, check=False, timeout=60).returncode
        == 3
    )


def test_without_python_on_the_node_the_script_still_runs(site: Any) -> None:
    script = batch_script.compose(
        b"#!/bin/bash\necho args $*; exit 4\n", "/no/python3", str(isolated.LIBRARY), site.roots
    )
    (site.folder / "batch").write_bytes(script)
    done = subprocess.run(
        ["/bin/sh", str(site.folder / "batch"), "1", "2"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (4, "args 1 2\n")
    assert "no /no/python3" in done.stderr


# signals


def test_other_signals_go_to_the_script_and_to_it_alone(site: Any) -> None:
    """As from slurmd: `sbatch --signal=B:USR1@60` reaches the shell, not what it runs."""
    job = site.start(
        "trap 'echo USR1' USR1; trap 'echo TERM; exit 7' TERM; echo up; sleep 100 & while ! wait; do :; done"
    )
    job.until_logged("up").send(signal.SIGUSR1).until_logged("USR1").send(signal.SIGTERM)
    assert job.end() == 7
    assert job.log.read_text().split() == ["up", "USR1", "TERM"]


def test_a_script_that_never_registered_gets_the_checkpoint_signal_itself(site: Any) -> None:
    job = (
        site.start("trap 'echo mine; exit 5' USR2; echo up; while :; do sleep 0.1; done")
        .until_logged("up")
        .send(signal.SIGUSR2)
    )
    assert job.end() == 5
    assert job.report() == control.JobReport(0, "ended", False, -1)


def test_slurms_end_of_a_job_is_not_doubled(site: Any) -> None:
    """Slurm sends SIGCONT and SIGTERM to every process of a job, so the script has had them."""
    program = (
        "import os, signal, time; signal.signal(15, lambda *_: os.write(1, b'TERM\\n')); os.write(1, b'up\\n');"
        "exec('while not os.path.exists(\"done\"): time.sleep(0.01)')"
    )
    job = site.start(f"echo $$; exec {shlex.quote(sys.executable)} -c {shlex.quote(program)}").until_logged("up")
    script = int(job.log.read_text().split()[0])
    for process in (script, job.process.pid):
        os.kill(process, signal.SIGCONT)
        os.kill(process, signal.SIGTERM)
    job.until_logged("TERM")
    time.sleep(0.3)  # time for a second one to arrive
    (site.folder / "done").touch()
    assert job.end() == 0
    assert job.log.read_text().split()[1:] == ["up", "TERM"]


# preemption


def test_preempted_and_resumed_ends_as_if_it_never_was(site: Any) -> None:
    steps = []
    for restart in range(3):
        job = site.start(site.train, restart=restart).preempt()
        steps.append(job.report().step)
        began = time.monotonic()
        assert job.send(signal.SIGTERM).end() == 99
        assert time.monotonic() - began < 1
        assert f"run {restart} saved step {steps[-1]} and waits for the requeue" in job.log.read_text()
    last = site.start(site.train, restart=3)
    assert last.end() == 0
    assert f"run 3 resumes from step {steps[-1]}" in last.log.read_text()
    assert sorted(set(steps)) == steps
    assert (site.folder / "result").read_text() == site.trained()


def test_without_a_requeue_it_goes_on_by_itself(site: Any) -> None:
    job = site.start(site.train, TIRESIAS_PARK_TIMEOUT="0.3").preempt()
    assert job.end() == 0
    words = re.search(
        r"no requeue came in 0.3 s: the script runs again, from step (\d+)\n.*run 0 resumes from step (\d+)",
        job.log.read_text(),
    )
    assert words
    assert words[1] == words[2]
    assert not control.stop_file(site.control(), 0).exists()
    assert (site.folder / "result").read_text() == site.trained()


def test_a_signal_on_the_way_to_the_training_loop_is_kept(site: Any) -> None:
    """A job whose program could save in an earlier run is not killed by a signal that comes while it loads."""
    site.start(site.train).preempt().send(signal.SIGTERM).end()
    job = site.start(f"echo up; sleep 0.5; {site.train}", restart=1).until_logged("up").send(signal.SIGUSR2)
    job.until(lambda report: report.state == "parked")
    assert job.send(signal.SIGTERM).end() == 99


def test_more_signals_change_nothing(site: Any) -> None:
    job = site.start(site.train).until(lambda report: report.ready)
    for _ in range(20):
        job.send(signal.SIGUSR2)
    job.until(lambda report: report.state == "parked").send(signal.SIGUSR2).send(signal.SIGUSR1)
    assert job.send(signal.SIGTERM).end() == 99
    assert job.log.read_text().count("preemption requested") == 1


def test_the_rest_of_the_script_is_not_run(site: Any) -> None:
    """`train; evaluate`: evaluating half a model is no use, and the next run does it all again. Background processes end too."""
    job = site.start(f"sleep 1000 & echo $!; {site.train}; sleep 1000; touch evaluated").preempt()
    assert job.send(signal.SIGTERM).end() == 99
    assert not (site.folder / "evaluated").exists()
    sleeper = Path(f"/proc/{job.log.read_text().split()[0]}/stat")
    assert not sleeper.exists() or ") Z " in sleeper.read_text()


def test_a_launcher_may_hide_the_exit_code(site: Any) -> None:
    """torchrun ends with 1 when its workers end with 99."""
    job = site.start(f"{site.train} || exit 1").preempt()
    assert job.send(signal.SIGTERM).end() == 99


def test_a_script_that_fails_while_it_is_asked_to_save_has_failed(site: Any) -> None:
    job = site.start(
        f"{site.train} & program=$!; trap 'kill -9 $program; exit 6' USR1; echo up; wait $program; sleep 0.2; exit 6"
    )
    job.until(lambda report: report.ready)
    program = next(int(name.split("-")[-2]) for name in registered_ranks.names(site.control() / control.RANKS))
    os.kill(program, signal.SIGSTOP)
    job.send(signal.SIGUSR2).until(lambda report: report.state == "saving")
    os.kill(program, signal.SIGKILL)
    assert job.end() == 6
    assert job.report().state == "ended"


def test_a_program_that_leaves_without_a_checkpoint_is_not_parked(site: Any) -> None:
    code = (
        "import sys, time; from tiresias.checkpoint import Checkpointer; c = Checkpointer.from_env();"
        "exec('while not c.should_stop(1): time.sleep(0.01)'); c.exit_for_requeue()"
    )
    job = (
        site.start(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}")
        .until(lambda report: report.ready)
        .send(signal.SIGUSR2)
    )
    assert job.end() == 99
    assert "no checkpoint verifies" in job.log.read_text()
    assert job.report().state == "ended"


BENDS = """
import sys, time
from pathlib import Path
from tiresias.checkpoint import Checkpointer
checkpointer = Checkpointer.from_env()
while not checkpointer.should_stop(1):
    time.sleep(0.01)
folder = checkpointer.save(1, {"weights": bytes(1 << 16)})
data = Path(folder) / "rank-0.bin"
with data.open("r+b") as file:
    file.seek(data.stat().st_size // 2)
    file.write(b"\\1")
checkpointer.exit_for_requeue()
"""


def test_a_checkpoint_with_one_wrong_byte_is_not_parked_for(site: Any) -> None:
    """Its sizes are right: only the hashes show it. A requeue would lose the whole run."""
    program = site.folder / "bends.py"
    program.write_text(BENDS)
    job = site.start(f"{shlex.quote(sys.executable)} {program}").until(lambda report: report.ready)
    job.send(signal.SIGUSR2)
    assert job.end() == 99
    assert "no checkpoint verifies" in job.log.read_text()
    assert job.report().state == "ended"


def test_the_next_run_falls_back_when_the_newest_is_damaged(site: Any) -> None:
    first = site.start(site.train).preempt()
    first.send(signal.SIGTERM).end()
    second = site.start(site.train, restart=1).preempt()
    second.send(signal.SIGTERM).end()
    store = Store(site.folder / "checkpoints" / "7")
    newest, older = store.steps()
    (store.path(newest) / "rank-0.json").write_text("{}")
    third = site.start(site.train, restart=2)
    assert third.end() == 0
    assert f"run 2 resumes from step {older}" in third.log.read_text()
    assert (site.folder / "result").read_text() == site.trained()


# a place that is not as it should be


def test_a_control_root_that_cannot_be_used_costs_no_job(site: Any) -> None:
    (site.folder / "file").write_text("")
    site.roots["TIRESIAS_CONTROL_ROOT"] = str(site.folder / "file")
    job = site.start(site.train)
    assert job.end() == 0
    assert (site.folder / "result").read_text() == site.trained()
    assert job.log.read_text().count("this job will not be preempted") == 1


@pytest.mark.parametrize("what", ["link", "file"])
def test_a_control_folder_of_someone_else_is_refused(site: Any, what: str) -> None:
    mine = site.control().parent
    mine.parent.mkdir()
    (site.folder / "elsewhere").mkdir()
    mine.symlink_to(site.folder / "elsewhere") if what == "link" else mine.write_text("")
    job = site.start("env | grep TIRESIAS_CONTROL=")
    assert job.end() == 1
    assert "is not a folder of yours; this job will not be preempted" in job.log.read_text()
    assert not list((site.folder / "elsewhere").iterdir())


@pytest.mark.parametrize("how", ["exec", ""])
def test_a_job_without_its_control_folder_continues_at_the_signal(site: Any, how: str) -> None:
    """The signal would kill a script that has no trap for it, and no report of a save could arrive."""
    job = site.start(f"{how} {site.train}").until(lambda report: report.ready)
    shutil.rmtree(site.control())
    job.send(signal.SIGUSR2)
    assert job.end() == 0
    assert "the control folder is unavailable: the script continues" in job.log.read_text()
    assert (site.folder / "result").read_text() == site.trained()


@pytest.mark.slow
def test_a_control_folder_that_was_removed_is_made_again_by_the_program(site: Any) -> None:
    """In its next word on how far it came. The supervisor finds it there when preemption is requested."""
    job = site.start(site.train.replace("300", "100000"), TIRESIAS_SUBMISSION="a").until(lambda report: report.ready)
    shutil.rmtree(site.control())
    job.until(lambda _: (site.control() / control.PROGRAM).exists())
    job.send(signal.SIGUSR2).until(lambda report: report.state == "parked")
    assert job.report().step >= 0
    assert job.send(signal.SIGTERM).end() == 99


def test_a_lost_request_is_repeated(site: Any) -> None:
    """The control folder went away just then."""
    job = site.start(site.train).until(lambda report: report.ready)
    program = int(next((site.control() / control.RANKS).iterdir()).name.split("-")[-2])
    os.kill(program, signal.SIGSTOP)
    job.send(signal.SIGUSR2).until(lambda report: report.state == "saving")
    stop = control.stop_file(site.control(), 0)
    job.until(lambda _: stop.exists())
    stop.unlink()
    job.until(lambda _: stop.exists())
    os.kill(program, signal.SIGCONT)
    job.until(lambda report: report.state == "parked")
    assert job.send(signal.SIGTERM).end() == 99


def test_the_folder_of_an_older_job_in_the_place_of_its_own_does_not_count(site: Any) -> None:
    """Its mount is back. That one had saved, and had been asked to stop."""
    site.start(site.train, TIRESIAS_SUBMISSION="a").preempt().send(signal.SIGTERM).end()
    older = site.control().rename(site.folder / "older")
    job = site.start(site.train, TIRESIAS_SUBMISSION="b").until(lambda report: report.ready)
    shutil.rmtree(site.control())
    older.rename(site.control())
    job.send(signal.SIGUSR2)
    assert job.end() == 0
    assert "the control folder is unavailable: the script continues" in job.log.read_text()
    assert (site.folder / "result").read_text() == site.trained()


def test_a_control_folder_that_is_back_is_used_again(site: Any) -> None:
    job = site.start(site.train).until(lambda report: report.ready)
    away = site.control().rename(site.folder / "away")
    job.send(signal.SIGUSR2).until_logged("the control folder is unavailable")
    away.rename(site.control())
    assert job.preempt().send(signal.SIGTERM).end() == 99
    assert site.start(site.train, restart=1).end() == 0
    assert (site.folder / "result").read_text() == site.trained()


def test_a_program_that_saved_while_its_control_folder_was_away_did_not_finish(site: Any) -> None:
    """Though the script went on after it, and ended well: the program's report is unavailable."""
    job = site.start(f"{site.train} || mv {site.control()} {site.folder}/away; exit 0").until(
        lambda report: report.ready
    )
    job.send(signal.SIGUSR2).until_logged("waits for the requeue")
    (site.folder / "away").rename(site.control())
    assert job.send(signal.SIGTERM).end() == 99
    assert site.start(site.train, restart=1).end() == 0
    assert (site.folder / "result").read_text() == site.trained()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_folder_that_another_user_made_first_is_refused(site: Any) -> None:
    checkpoints = site.folder / "checkpoints"
    for path in (site.control().parent, checkpoints / "7", checkpoints / f"7-{os.getuid()}"):
        path.mkdir(parents=True)
        os.chown(path, 12345, 12345)
    job = site.start(site.train, restart=1)
    assert job.end() == 0
    assert job.log.read_text().count("is not a folder of yours") == 2
    assert (site.folder / "result").read_text() == site.trained()


def test_an_older_job_with_the_same_id_is_not_resumed(site: Any) -> None:
    site.start(site.train).preempt().send(signal.SIGTERM).end()
    job = site.start(site.train)
    assert job.end() == 0
    assert "run 0 starts from the beginning" in job.log.read_text().split("left by an older job", 1)[1]
    assert Store(site.folder / "checkpoints" / "7.1").steps()


def test_an_older_job_is_detected_by_its_submission_in_any_run(site: Any) -> None:
    """The first run of the new one was ended before its supervisor started."""
    site.start(site.train, TIRESIAS_SUBMISSION="a").preempt().send(signal.SIGTERM).end()
    job = site.start(site.train, restart=1, TIRESIAS_SUBMISSION="b")
    assert job.end() == 0
    assert "run 1 starts from the beginning" in job.log.read_text().split("left by an older job", 1)[1]
    assert Store(site.folder / "checkpoints" / "7.1").steps()


def test_a_job_whose_requeue_slurm_forgot_is_resumed(site: Any) -> None:
    """slurmctld was killed and counts no restart: it is the same submission all the same."""
    site.start(site.train, TIRESIAS_SUBMISSION="a").preempt().send(signal.SIGTERM).end()
    job = site.start(site.train, TIRESIAS_SUBMISSION="a")
    assert job.end() == 0
    assert "left by an older job" not in job.log.read_text()
    assert "run 0 resumes from step" in job.log.read_text()


def test_each_folder_names_its_own_job(site: Any) -> None:
    """The control folder was away in the first run, and what an older job left there is back in the second."""
    site.start("true", TIRESIAS_SUBMISSION="a").end()
    away = site.control().rename(site.folder / "away")
    site.start(site.train, TIRESIAS_SUBMISSION="b").preempt().send(signal.SIGTERM).end()
    shutil.rmtree(site.control())
    away.rename(site.control())
    job = site.start(site.train, restart=1, TIRESIAS_SUBMISSION="b")
    assert job.end() == 0
    assert "run 1 resumes from step" in job.log.read_text().split(f"{site.control()} was left by an older job", 1)[1]


def test_only_the_process_that_registered_is_signalled(tmp_path: Path) -> None:
    host = os.uname().nodename
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        for name in (
            f"{host}-{bystander.pid}-1",
            f"elsewhere-{bystander.pid}-1",
            f"{host}-1-1",
            "x",
            f"{host}-99999999999-1",
            "..-1-1",
        ):
            (tmp_path / name).touch()
        assert registered_ranks.send(tmp_path, signal.SIGKILL) == 0
        assert bystander.poll() is None
        bystander.kill()
    assert registered_ranks.send(tmp_path / "none", signal.SIGKILL) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_an_id_that_another_user_had_before_gets_a_checkpoint_folder(tmp_path: Path) -> None:
    roots = {
        "TIRESIAS_CONTROL_ROOT": str(tmp_path / "control"),
        "TIRESIAS_CHECKPOINT_ROOT": str(tmp_path / "checkpoints"),
    }
    foreign = tmp_path / "checkpoints" / "7"
    foreign.mkdir(parents=True)
    os.chown(foreign, 12345, 12345)
    first = jobs.from_env({"SLURM_JOB_ID": "7", **roots})
    assert first.checkpoints == tmp_path / "checkpoints" / f"7-{os.getuid()}"
    foreign.rmdir()
    again = jobs.from_env({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1", **roots})
    assert again.checkpoints == first.checkpoints, "its checkpoints are there"
