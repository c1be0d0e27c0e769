"""tsbatch and tsrun as commands, with stand-ins for sbatch and srun showing what they got (real ones: test_on_slurm.py)."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from array import array
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD

import pytest

from tiresias.protocol import control
from tiresias.protocol.job_kind import Key, script_hash
from tiresias.protocol.profile_summary import Summary, as_object
from tiresias.slurm_plugin.backends import parse
from tiresias.wrappers import child_process, isolated, previous_job, user_script

STAND_IN = f"""#!{sys.executable}
import os, sys
words = sys.argv[1:]
script = [word for word in words if os.path.isfile(word)]
inserted = [word[6:] for word in words if word.startswith("--bbf=")]
print([word for word in words if not word.startswith("--bbf=")])
wrapped = [words[words.index("--wrap") + 1]] if "--wrap" in words else []
text = open(script[0]).read() if script else "#!/bin/sh\\n" + wrapped[0] if wrapped else sys.stdin.read()
first, _, rest = text.partition("\\n")
print(first + "\\n" + open(inserted[0]).read() + rest if inserted else text, end="")
print(*sorted("=".join(pair) for pair in os.environ.items() if pair[0].startswith("SBATCH_")))
print("printed on stderr", file=sys.stderr)
code = os.environ.get("CODE", "0")
os.kill(os.getpid(), 9) if code == "kill" else sys.exit(int(code))
"""
PRINTS_FLAGS = """
import sys
print(os.environ.get("SLURM_TIRESIAS"))
for word in sys.argv:
    if os.path.isfile(word) and "export TIRESIAS_NO_REQUEUE=1\\n" in open(word).read():
        print("no-requeue")
"""
SCRIPT = "#!/bin/sh\n#SBATCH -n2\necho hello\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    for name in ("sbatch", "srun"):
        (tmp_path / "bin" / name).write_text(STAND_IN)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "job.sh").write_text(SCRIPT)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def run(
    folder: Path, *words: str, command: str = "tsbatch", stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    path = f"{folder}/bin:{os.environ['PATH']}"
    library = {"PYTHONPATH": str(isolated.LIBRARY)}  # the tree under test, whichever is installed
    return subprocess.run(
        [sys.executable, "-m", f"tiresias.wrappers.{command}", *words], input=stdin, capture_output=True, text=True, check=False,
        cwd=folder, env={"PATH": path, "HOME": str(folder), "TMPDIR": str(folder / "tmp"), **library, **env}, timeout=60,
    )  # fmt: skip


def test_a_script_goes_in_under_its_own_name_with_its_arguments(folder: Path) -> None:
    words = ["-N", "2", "--parsable", "job.sh", "a b", "--x"]
    done = run(folder, *words)
    assert eval(done.stdout.splitlines()[0]) == words
    assert submitted(done) == SCRIPT
    assert done.stdout.endswith("\nSBATCH_OPEN_MODE=append SBATCH_REQUEUE=\n")
    assert done.stderr == "printed on stderr\n"
    assert not list((folder / "tmp").iterdir())


def submitted(done: subprocess.CompletedProcess[str]) -> str:
    """The user's script in what sbatch got."""
    return user_script.own("\n".join(done.stdout.split("\n")[1:-2]).encode()).decode() + "\n"


def test_a_script_of_another_interpreter_goes_in_as_a_private_copy(folder: Path) -> None:
    script = "#!/usr/bin/python3\n#SBATCH -n2\nprint()\n"
    (folder / "job.sh").write_text(script)
    done = run(folder, "--parsable", "job.sh", "a b")
    words = eval(done.stdout.splitlines()[0])
    assert (words[0], Path(words[1]).name, words[2]) == ("--parsable", "job.sh", "a b")
    assert "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH -n2\n" in done.stdout
    assert submitted(done) == script
    assert not list((folder / "tmp").iterdir()), "the private copy stayed"


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (["--bb=x", "job.sh"], ""),
        (["job.sh"], "#SBATCH --bbf=x\n"),
        (["job.sh"], "#SBATCH --in-2030\n"),
        (["job.sh"], "#PBS -r n\n"),
    ],
)
def test_where_nothing_can_be_inserted_it_is_a_private_copy(folder: Path, words: list[str], script: str) -> None:
    (folder / "job.sh").write_text(f"#!/bin/sh\n{script}true\n")
    assert eval(run(folder, *words).stdout.splitlines()[0])[-1] != "job.sh"


def test_the_file_to_insert_is_the_same_for_all_submissions(folder: Path) -> None:
    """SubmitLine can be given again. A full home costs only that."""
    run(folder, "job.sh")
    run(folder, "-N", "2", "--wrap", "true")
    assert len(list((folder / ".tiresias/batch").iterdir())) == 1
    done = run(folder, "job.sh", HOME="/proc")
    assert submitted(done) == SCRIPT
    assert "Slurm shows a private copy of the script as the job's Command" in done.stderr


@pytest.mark.parametrize("words", [["--parsable"], ["--quiet"], ["-vQ"], ["--test-only", "--parsable"]])
def test_programs_that_parse_its_output_are_not_disturbed(folder: Path, words: list[str]) -> None:
    assert run(folder, *words, "job.sh").stderr == "printed on stderr\n"


@pytest.mark.parametrize("words", [["job.sh"], ["--wrap", "true"], ["-p", "a\x1b[2Jb", "job.sh"]])
def test_the_scheduling_note_is_one_line(folder: Path, words: list[str]) -> None:
    errors = run(folder, *words).stderr
    assert errors.endswith("printed on stderr\n")
    assert errors.startswith("tiresias: ")
    assert "not preempted unless its program registers for checkpoints: no checkpointing seen in the script" in errors
    assert errors.count("\n") == 2
    assert "\x1b" not in errors


def test_nothing_is_submitted_with_test_only(folder: Path) -> None:
    done = run(folder, "--test-only", "job.sh")
    assert eval(done.stdout.splitlines()[0])[0] == "--test-only"
    assert submitted(done) == SCRIPT
    assert done.stderr.startswith("tiresias: nothing is submitted, but it would be under Tiresias' supervisor; ")
    assert not (folder / ".tiresias/control").exists()


def test_the_note_has_the_result_of_the_last_job(folder: Path) -> None:
    kind, root = script_hash(SCRIPT.encode()), folder / ".tiresias/control"
    job = root / str(os.getuid()) / "12"
    job.mkdir(parents=True)
    previous_job.note(job, kind, previous_job.PreviousJob("12", True, 40))
    assert "may be preempted: job 12 of this script could save, and saved step 40" in run(folder, "job.sh").stderr
    key, found = Key("job.sh", kind, 4), Summary("spread", job="11")
    (job.parent / "profiles").mkdir()
    control.write(job.parent / "profiles", key.file, as_object(key, found))
    assert run(folder, "job.sh").stderr.startswith("tiresias: ")
    assert "; placed wherever GPUs are free, by the traffic of job 11\n" in run(folder, "job.sh").stderr
    assert "traffic" not in run(folder, "-J", "another", "job.sh").stderr


def test_a_folder_that_hangs_delays_no_submission() -> None:
    before = time.monotonic()
    child_process.run(lambda: time.sleep(60), 0.3)
    assert time.monotonic() - before < 30


def test_it_imports_what_no_module_of_a_user_hides() -> None:
    """json.py, logging.py, random.py: users have such files beside their scripts."""
    code = "import sys; import tiresias.wrappers.tsbatch; print(*{'json', 'logging', 'random', 'tomllib'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    without = subprocess.run(
        [sys.executable, "-c", code.replace("wrappers.tsbatch", "errors")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == without.stdout


def test_a_program_that_saves_by_itself_is_submitted_with_its_option(folder: Path) -> None:
    done = run(folder, "job.sh", TIRESIAS_CHECKPOINT="signal:TERM:out")
    assert done.returncode == 0, done.stderr
    assert "export TIRESIAS_CHECKPOINT=signal:TERM:out\n" in done.stdout
    refused = run(folder, "job.sh", TIRESIAS_CHECKPOINT="signal:TERM")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "use none, dmtcp, criu, or signal:NAME:FOLDER such as signal:TERM:outputs" in refused.stderr


@pytest.mark.parametrize(("code", "expected"), [("0", 0), ("1", 1), ("42", 42), ("kill", 137)])
def test_the_exit_code_is_sbatchs(folder: Path, code: str, expected: int) -> None:
    assert run(folder, "job.sh", CODE=code).returncode == expected
    assert not list((folder / "tmp").iterdir())


def test_standard_input_and_wrap(folder: Path) -> None:
    done = run(folder, "-n1", stdin=SCRIPT)
    assert eval(done.stdout.splitlines()[0]) == ["-n1"]
    assert submitted(done) == SCRIPT
    done = run(folder, "--wrap", "echo '$x'", "-n1")
    assert eval(done.stdout.splitlines()[0]) == ["--wrap", "echo '$x'", "-n1"]
    assert "#---- tiresias: the user's script goes on below ----\necho '$x'" in done.stdout


@pytest.mark.parametrize(
    ("words", "errors"),
    [
        (["nofile.sh"], "nofile.sh: No such file or directory"),
        (["--future", "1", "job.sh"], "the option --future"),
        (["-n1", ":", "-n2", "job.sh"], "a heterogeneous job"),
        (["--wrap", "x", "job.sh"], "--wrap together with a script"),
        (["bin"], "Is a directory"),
    ],
)
def test_an_unsupported_command_line_goes_to_sbatch_unchanged(folder: Path, words: list[str], errors: str) -> None:
    done = run(folder, *words)
    assert eval(done.stdout.splitlines()[0]) == words
    assert errors in done.stderr
    assert done.stderr.count("\n") == 2


@pytest.mark.parametrize("words", [["--help"], ["-V"], ["--usage", "job.sh"]])
def test_questions_are_sbatchs_to_answer(folder: Path, words: list[str]) -> None:
    done = run(folder, *words)
    assert (eval(done.stdout.splitlines()[0]), done.stderr) == (words, "printed on stderr\n")


def test_a_bad_script_on_standard_input_reaches_sbatch_unchanged(folder: Path) -> None:
    done = run(folder, stdin="echo no interpreter\n")
    assert done.stdout.endswith("\necho no interpreter\n\n")
    assert "does not begin with #!" in done.stderr


@pytest.mark.parametrize("words", [["job.sh"], ["--steps-from=step (.)", "job.sh"]])
def test_a_program_declared_unable_is_plain_sbatch(folder: Path, words: list[str]) -> None:
    done = run(folder, *words, TIRESIAS_CHECKPOINT="none")
    assert done.stdout == f"['job.sh']\n{SCRIPT}\n"


def test_the_pattern_of_the_steps_goes_into_the_job_and_not_to_sbatch(folder: Path) -> None:
    pattern = r"the user's step (\d+)"
    done = run(folder, f"--steps-from={pattern}", "-N2", "job.sh", "--steps-from=x")
    assert eval(done.stdout.splitlines()[0]) == ["-N2", "job.sh", "--steps-from=x"]
    assert f"TIRESIAS_STEPS_FROM={shlex.quote(pattern)}\n" in done.stdout
    assert submitted(done) == SCRIPT


def test_a_pattern_without_a_group_is_not_submitted(folder: Path) -> None:
    done = run(folder, r"--steps-from=step \d+", "job.sh")
    assert (done.returncode, done.stdout) == (2, "")
    assert "it has no group for the step" in done.stderr


def test_the_choice_of_opportunistic_runs_goes_into_the_job_and_into_the_note_and_not_to_sbatch(folder: Path) -> None:
    done = run(folder, "--opportunistic", "restart", "-N2", "job.sh", "--opportunistic=x")
    assert eval(done.stdout.splitlines()[0]) == ["-N2", "job.sh", "--opportunistic=x"]
    assert "export TIRESIAS_OPPORTUNISTIC=restart\n" in done.stdout
    assert submitted(done) == SCRIPT
    assert "its run is ended and starts again from the beginning when the GPUs are needed" in done.stderr
    assert noted_choices(folder) == ["restart"]


@pytest.mark.parametrize(
    ("words", "text", "checkpoint", "choice"),
    [
        ([], "true", "", "yes"),
        ([], "python -m tiresias.checkpoint", "", "saves"),
        ([], "true", "signal:TERM:out", "saves"),
        (["--opportunistic=no"], "python -m tiresias.checkpoint", "", "no"),
    ],
)
def test_the_note_has_whether_the_script_is_seen_to_save(
    folder: Path, words: list[str], text: str, checkpoint: str, choice: str
) -> None:
    """Also where no line is printed."""
    (folder / "job.sh").write_text(f"#!/bin/sh\n{text}\n")
    assert run(folder, *words, "--parsable", "job.sh", TIRESIAS_CHECKPOINT=checkpoint).returncode == 0
    assert noted_choices(folder) == [choice]


def noted_choices(folder: Path) -> list[str]:
    [file] = (folder / ".tiresias/control" / str(os.getuid()) / "submitted").iterdir()
    return [choice for _, choice in json.loads(file.read_text())["opportunistic"]]


@pytest.mark.parametrize("elastic", ["", "1-8", "2-8:2", "1-8+1-4*2", "1-8:2+1-4*2:async"])
def test_a_private_copy_shows_the_choices_in_its_path(folder: Path, elastic: str) -> None:
    (folder / "job.sh").write_text("#!/usr/bin/python3\nprint()\n")
    sizes, _, servers = elastic.partition("+")
    words = ["--opportunistic=restart", *([f"--elastic={sizes}"] if elastic else [])]
    if servers:
        words += ["-n2", "--gpus-per-task=1", "-c2", f"--servers={servers.replace('*2', '')}"]
    [command] = [word for word in eval(run(folder, *words, "job.sh").stdout.splitlines()[0]) if "/tsbatch-" in word]
    assert parse.choice(command) == "restart"
    assert parse.sizes(command) == elastic
    assert parse.script(command) == script_hash(b"#!/usr/bin/python3\nprint()\n")


@pytest.mark.parametrize(
    ("words", "env", "header", "message"),
    [
        (["--opportunistic=maybe"], {}, "", "--opportunistic='maybe' is not possible; allowed: yes, no, restart"),
        (["--opportunistic="], {}, "", "--opportunistic='' is not possible"),
        ([], {"TIRESIAS_OPPORTUNISTIC": "x" * 99}, "", "is not possible; allowed: yes, no, restart"),
        (["--opportunistic=restart", "--no-requeue"], {}, "", "contradicts --no-requeue"),
        (["--opportunistic=restart"], {"SBATCH_NO_REQUEUE": ""}, "", "contradicts --no-requeue"),
        (["--opportunistic=restart"], {}, "#SBATCH --no-requeue\n", "contradicts --no-requeue"),
        ([], {"TIRESIAS_OPPORTUNISTIC": "restart"}, "#SBATCH --no-requeue\n", "contradicts --no-requeue"),
        (["--opportunistic=restart"], {"TIRESIAS_CHECKPOINT": "none"}, "", "contradicts TIRESIAS_CHECKPOINT=none"),
    ],
)
def test_a_choice_that_is_impossible_is_refused_in_one_line(
    folder: Path, words: list[str], env: dict[str, str], header: str, message: str
) -> None:
    (folder / "job.sh").write_text(f"#!/bin/sh\n{header}true\n")
    done = run(folder, *words, "job.sh", **env)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("words", "env", "header", "message"),
    [
        (
            ["--elastic=8-2"],
            {},
            "",
            "--elastic='8-2' is not possible; state MIN-MAX or MIN-MAX:STEP in GPUs, such as 2-8:2",
        ),
        (["--elastic=0-4"], {}, "", "--elastic='0-4' is not possible"),
        (["--elastic="], {}, "", ""),
        (["--elastic", "two"], {}, "", "--elastic='two' is not possible"),
        ([], {"TIRESIAS_ELASTIC": "1-"}, "", "--elastic='1-' is not possible"),
        (
            ["--elastic=1-4", "--array=1-3"],
            {},
            "",
            "--elastic contradicts --array: each task of an array has the size of all",
        ),
        (["--elastic=1-4", "-a1-3"], {}, "", "--elastic contradicts -a"),
        (
            ["--elastic=2-5", "--nodes=1", "--gpus-per-node=3"],
            {},
            "",
            "--elastic=2-5: sizes differ from the 3 GPUs that the job requests by multiples of 3, and none is from 2 to 5",
        ),
        (
            ["--elastic=1-8:5", "-n4", "--gpus-per-task=a100:1"],
            {},
            "",
            "from the 4 GPUs that the job requests by multiples of 5",
        ),
        (["--elastic=1-4"], {}, "#SBATCH -n1\n#SBATCH hetjob\n", "the job would be left to sbatch as it is"),
        (["--elastic=1-4"], {}, "#SBATCH --exclusive\n", "--elastic contradicts --exclusive"),
        (["--elastic=1-4"], {"SBATCH_GPUS": "4"}, "", "--elastic contradicts --gpus: state GPUs by --gpus-per-task"),
        (["--elastic=1-4", "--no-requeue"], {}, "", "--elastic contradicts --no-requeue"),
        (["--elastic=1-4"], {"TIRESIAS_CHECKPOINT": "none"}, "", "--elastic contradicts TIRESIAS_CHECKPOINT=none"),
        (
            ["--servers=1-4"],
            {},
            "",
            "--servers is for elastic jobs: state the numbers of GPUs, too, such as --elastic=1-8",
        ),
        (
            ["--elastic=1-4", "--servers=0-4"],
            {},
            "",
            "--servers='0-4' is not possible; state MIN-MAX, from 1 to 256 servers",
        ),
        (["--elastic=1-4", "--servers=4-1"], {}, "", "--servers='4-1' is not possible"),
        (["--elastic=1-4", "--servers=1-4:sync"], {}, "", "--servers='1-4:sync' is not possible"),
        (["--elastic=1-4", "--servers=1-257"], {}, "", "--servers='1-257' is not possible"),
        (["--elastic=1-4"], {"TIRESIAS_SERVER_COUNTS": "two"}, "", "--servers='two' is not possible"),
        (["--elastic=1-4", "--servers=1-2", "-n2"], {}, "", "--servers needs the workers as numbers"),
        (["--remote-mem=0"], {}, "", "--remote-mem='0' is not possible; state a size above 0"),
        (
            ["--remote-mem=1G"],
            {"TIRESIAS_CHECKPOINT": "none"},
            "",
            "--remote-mem is not possible: the job would be left",
        ),
        (["--remote-mem=1G"], {}, "#SBATCH -n8\n", "--remote-mem is counted for each node: state their number"),
        (["--remote-mem=1G"], {}, "#SBATCH -n1\n#SBATCH hetjob\n", "the job would be left to sbatch as it is"),
        (
            ["--elastic=1-4", "--servers=1-2", "-n2", "--gpus-per-task=1"],
            {},
            "#SBATCH --cpus-per-gpu=2\n",
            "--servers contradicts --cpus-per-gpu: state workers by",
        ),
    ],
)
def test_sizes_that_are_impossible_are_refused_in_one_line(
    folder: Path, words: list[str], env: dict[str, str], header: str, message: str
) -> None:
    (folder / "job.sh").write_text(f"#!/bin/sh\n{header}true\n")
    done = run(folder, *words, "job.sh", **env)
    if not message:
        assert done.returncode == 0
        return
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def test_remote_memory_becomes_two_options_of_sbatch(folder: Path) -> None:
    done = run(folder, "--remote-mem=2G", "--nodes=2", "--licenses=lm", "job.sh", "--remote-mem=1G")
    words = ["--nodes=2", "--licenses=lm", "--extra=remote-mem=2048M", "--licenses=lm,remote_memory:4", "job.sh"]
    assert eval(done.stdout.splitlines()[0]) == [*words, "--remote-mem=1G"]
    refused = run(folder, "--remote-mem=2G", "--nodes=2", "job.sh", CODE="1")
    assert refused.returncode == 1
    assert "needs Licenses=remote_memory:N in slurm.conf" in refused.stderr


def test_the_sizes_go_into_the_job_and_into_the_note_and_not_to_sbatch(folder: Path) -> None:
    done = run(folder, "--elastic=2-8:2", "-n4", "--gpus-per-task=1", "job.sh")
    assert eval(done.stdout.splitlines()[0]) == ["-n4", "--gpus-per-task=1", "job.sh"]
    assert "export TIRESIAS_ELASTIC=2-8:2\n" in done.stdout
    run(folder, "-n4", "job.sh")
    [file] = (folder / ".tiresias/control" / str(os.getuid()) / "submitted").iterdir()
    assert [sizes for _, sizes in json.loads(file.read_text())["elastic"]] == ["2-8:2", "fixed"]


@pytest.mark.parametrize("cpus", [["-c4"], ["--cpus-per-task", "4"], []])
def test_the_request_holds_the_cpus_of_the_servers(folder: Path, cpus: list[str]) -> None:
    """Two of eight workers have one of four servers: half of its CPUs each."""
    asked = [*cpus, "-n2", "--gpus-per-task=1", "--elastic=1-8", "--servers=1-4"]
    (folder / "job.sh").write_text(SCRIPT if cpus else SCRIPT.replace("-n2", "-n2 -c4"))
    done = run(folder, *asked, "job.sh", "argument", TIRESIAS_SERVERS="7")
    words = [*cpus, "-n2", "--gpus-per-task=1", "--cpus-per-task=6", "job.sh", "argument"]
    assert eval(done.stdout.splitlines()[0]) == words
    assert "export TIRESIAS_ELASTIC='1-8+1-4*4'\n" in done.stdout
    [file] = (folder / ".tiresias/control" / str(os.getuid()) / "submitted").iterdir()
    assert [sizes for _, sizes in json.loads(file.read_text())["elastic"]] == ["1-8+1-4*4"]
    wrapped = run(folder, *asked, "--wrap", "true")
    assert eval(wrapped.stdout.splitlines()[0])[-1] == f"--cpus-per-task={6 if cpus else 2}"
    asynchronous = run(folder, *asked[:-1], "--servers=1-4:async", "job.sh")
    assert eval(asynchronous.stdout.splitlines()[0]) == words[:-1]
    assert "export TIRESIAS_ELASTIC='1-8+1-4*4:async'\n" in asynchronous.stdout


def test_a_request_that_slurm_refuses_names_the_servers(folder: Path) -> None:
    done = run(folder, "--elastic=1-8", "--servers=1-200", "-n2", "--gpus-per-task=1", "job.sh", CODE="1")
    assert done.returncode == 1
    assert "not submitted with --cpus-per-task=26, for each worker and its part of 50 parameter servers" in done.stderr


def test_the_option_counts_more_than_the_variable(folder: Path) -> None:
    done = run(folder, "--opportunistic=yes", "--no-requeue", "job.sh", TIRESIAS_OPPORTUNISTIC="restart")
    assert done.returncode == 0
    assert "export TIRESIAS_OPPORTUNISTIC=yes\n" in done.stdout


def test_without_slurm(folder: Path) -> None:
    for command in ("tsbatch", "tsrun"):
        for words in (["job.sh"], ["--help"]):
            done = run(folder, *words, command=command, PATH="/nowhere", SLURM_JOB_ID="1")
            assert (done.returncode, done.stdout) == (127, "")
            assert "is not in PATH: load your site's Slurm module" in done.stderr


def test_no_space_for_the_private_copy(folder: Path) -> None:
    (folder / "job.sh").write_text("#!/usr/bin/python3\n")
    assert run(folder, "job.sh", TMPDIR="/nonexistent").returncode == 0, "tempfile takes the next place"


@pytest.mark.parametrize("name", ["a b.sh", "$x'\".sh", "é\n.sh", "-n.sh"])
def test_strange_names(folder: Path, name: str) -> None:
    (folder / name).write_text(SCRIPT)
    done = run(folder, f"./{name}")
    assert eval(done.stdout.splitlines()[0]) == [f"./{name}"]
    assert submitted(done) == SCRIPT


@pytest.mark.parametrize(
    ("words", "script", "expected"),
    [
        (["--no-requeue"], "", True),
        ([], "#SBATCH --no-requeue\n", True),
        (["--requeue"], "#SBATCH --no-requeue\n", False),
    ],
)
@pytest.mark.parametrize("interpreter", ["/bin/sh", "/usr/bin/python3"])
def test_the_supervisor_gets_no_requeue(
    folder: Path, words: list[str], script: str, expected: bool, interpreter: str
) -> None:
    (folder / "job.sh").write_text(f"#!{interpreter}\n{script}true\n")
    (folder / "bin/sbatch").write_text(f"#!{sys.executable}\nimport os\n{PRINTS_FLAGS}")
    assert ("no-requeue" in run(folder, *words, "job.sh").stdout) == expected


# tsrun


def test_tsrun_is_srun(folder: Path) -> None:
    done = run(folder, "-n2", "python", "x.py", command="tsrun", SLURM_JOB_ID="1", CODE="5")
    assert (done.returncode, done.stdout, done.stderr) == (5, "['-n2', 'python', 'x.py']\n\n", "printed on stderr\n")


def test_tsrun_outside_of_a_job_logs_the_consequence(folder: Path) -> None:
    done = run(folder, "hostname", command="tsrun")
    assert done.stdout == "['hostname']\n\n"
    assert "it will not be preempted" in done.stderr


def test_ctrl_c_before_the_script_is_submitted(folder: Path) -> None:
    """It waits for the script, which comes from a terminal that sends none."""
    env = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder), "TMPDIR": str(folder / "tmp")}
    command = [sys.executable, "-m", "tiresias.wrappers.tsbatch"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as waiting:
        assert waiting.stdin
        os.write(waiting.stdin.fileno(), b"#!/bin/sh")
        deadline = time.monotonic() + 30
        while array("i", ioctl(waiting.stdin, FIONREAD, bytes(4)))[0]:  # until it reads
            assert time.monotonic() < deadline
            time.sleep(0.01)
        waiting.send_signal(signal.SIGINT)
        assert waiting.communicate(timeout=30) == (b"", b"")
    assert waiting.returncode == 130
    assert not list((folder / "tmp").iterdir())
