"""tsbatch: sbatch for programs that can be preempted.

    tsbatch [any sbatch option] script [arguments]      as sbatch; also --wrap, and a script on standard input

The script runs under a supervisor that has it save and leave when the controller needs its GPUs, and the job is requeued and
appends to its log by default. Options, #SBATCH lines, standard output and exit code are sbatch's, and Slurm keeps the script's
path and the options as given (Command, SubmitLine). A command line that tsbatch does not support goes to sbatch
unchanged. One line on standard error states which scheduler handles the job, whether it may be preempted and how it is placed;
with --test-only, without submitting; with --parsable or --quiet, never.

--checkpoint=dmtcp|criu    the program has no checkpoints: DMTCP or CRIU dumps all its processes as an image and restores them
                       (one node, no GPU memory, no srun); also none or signal:NAME:FOLDER, as TIRESIAS_CHECKPOINT below
--steps-from=REGEX     the program prints its progress: report the step and the total that this pattern finds in its output, such as
                       --steps-from='step (\\d+)/(\\d+)', or groups named step and total; `tiresias explain` shows the time left
--opportunistic=yes|no|restart     whether the job may run on idle GPUs beyond the cells of its virtual cluster, which it releases
                       when they are needed: yes (the default): if it can save; no: never; restart: also if it cannot save, its
                       run is then ended and starts again from the beginning
--elastic=MIN-MAX[:STEP]    the job can use these numbers of GPUs: after a checkpoint it gets more while GPUs are idle, and fewer
                       while other jobs wait; with --gpus-per-task the number of tasks changes, else that of nodes
--servers=MIN-MAX[:async]   with --elastic, --ntasks and --gpus-per-task: the program can use these numbers of parameter servers
                       beside its tasks; each has the CPUs of a task, and TIRESIAS_SERVERS states their number in each run;
                       async: each task makes steps of its own, and a reported step counts those of all tasks
--remote-mem=N[:node|:task]   memory beyond --mem, for each node (the default) or task, as swap on other nodes' memory and the local
                       disk; the site has to set it up, and counts it as the licence remote_memory

To see whether a script can be preempted and resumed, and what is missing:  tiresias rehearse script

TIRESIAS_CHECKPOINT=dmtcp      as --checkpoint=dmtcp; so is criu
TIRESIAS_CHECKPOINT=none       the program cannot save: plain sbatch, never preempted
TIRESIAS_CHECKPOINT=signal:TERM:outputs    at SIGTERM the program saves to the folder `outputs` and ends; it resumes by itself
TIRESIAS_FINAL_CODES=93,3 exit codes of the script after which the job is neither requeued nor resumed (default: 93)
TIRESIAS_CONTROL_ROOT, TIRESIAS_CHECKPOINT_ROOT, TIRESIAS_SIGNAL, TIRESIAS_PARK_TIMEOUT       override the site's configuration
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import UsageError
from tiresias.protocol import environment
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import (
    batch_script,
    child_process,
    elastic,
    inserted,
    isolated,
    opportunistic,
    parameter_servers,
    printed_steps,
    remote_memory_request,
    sbatch_options,
    self_saving,
    settings,
)
from tiresias.wrappers.images import option as image_option
from tiresias.wrappers.sbatch_options import UnsupportedOptions
from tiresias.wrappers.scheduling_notes import submit_options

NOTE_TIMEOUT_S = 5.0  # for the scheduling note; folders that hang must not delay a submission
_OWN = (
    image_option.OPTION,
    printed_steps.OPTION,
    opportunistic.OPTION,
    elastic.OPTION,
    parameter_servers.OPTION,
    remote_memory_request.OPTION,
)
_BURST_BUFFER = frozenset({"bb", "bbf"})  # sbatch takes one file of --bbf, and none beside --bb


class Submission(NamedTuple):
    """A submission.

    Attributes:
        words: The whole command line.
        options: sbatch's options in it.
        script: Content of the user's script.
        name: File name, sbatch's default for the job's name.
        path: The file as Slurm shows it, "" without one.
        arguments: The script's arguments.
        has_options: The script may hold #SBATCH lines.
        refused: Why it goes to sbatch unchanged.
    """

    words: list[str]
    options: list[str]
    script: bytes
    name: str = "sbatch"
    path: str = ""
    arguments: Sequence[str] = ()
    has_options: bool = True
    refused: str = ""

    def with_option(self, option: str) -> Submission:
        """Return the submission with an option of sbatch after the user's own."""
        end = len(self.words) - len(self.arguments) - bool(self.path)
        end -= self.words[end - 1 : end] == ["--"]
        return self._replace(words=[*self.words[:end], option, *self.words[end:]], options=[*self.options, option])

    def asked(self) -> submit_options.SubmitOptions:
        """Return the effective options."""
        return submit_options.of(self.options, self.script if self.has_options else b"", os.environ)


def main(argv: Sequence[str] | None = None) -> int:
    """Run tsbatch; return the exit code."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # before sbatch had the script
        return 130


def _run(words: list[str]) -> int:
    try:
        return _submitted(_take_own_options(words))
    except UsageError as error:
        log_line(str(error))
        return error.exit_code


def _submitted(words: list[str]) -> int:
    opportunistic.check_plain(os.environ)
    elastic.check_plain(os.environ)
    if os.environ.get(environment.CHECKPOINT) == "none":
        remote_memory_request.check_left_alone(os.environ, f"{environment.CHECKPOINT}=none")
        return _exec(words)
    self_saving.from_env(os.environ)
    try:
        submission = parse(words)
    except UnsupportedOptions as reason:
        elastic.check_left_alone(os.environ, str(reason))
        remote_memory_request.check_left_alone(os.environ, str(reason))
        if str(reason):
            log_line(f"left to sbatch as it is, so the job will not be preempted: {reason}")
        return _exec(words)
    return submit(submission)


def _take_own_options(words: list[str]) -> list[str]:
    """Return the command line without tsbatch's own options, which are passed on as variables. Raises UsageError."""
    if any(word.startswith(_OWN) for word in words):
        try:
            words, own = sbatch_options.without_own(words)
        except UnsupportedOptions:
            return words
        if "checkpoint" in own:
            os.environ[environment.CHECKPOINT] = own["checkpoint"]
        if "steps-from" in own:
            printed_steps.check(own["steps-from"])
            os.environ[environment.STEPS_FROM] = own["steps-from"]
        if "opportunistic" in own:
            opportunistic.check(own["opportunistic"])
            os.environ[environment.OPPORTUNISTIC] = own["opportunistic"]
        if "elastic" in own:
            os.environ[environment.ELASTIC] = own["elastic"]
        if "servers" in own:
            os.environ[environment.SERVER_COUNTS] = own["servers"]
        if "remote-mem" in own:
            os.environ[environment.REMOTE_MEMORY] = own["remote-mem"]
    if pattern := os.environ.get(environment.STEPS_FROM):
        printed_steps.check(pattern)
    opportunistic.check(opportunistic.chosen(os.environ))
    elastic.check(os.environ)
    parameter_servers.check(os.environ)
    remote_memory_request.check(os.environ)
    return words


def parse(words: Sequence[str]) -> Submission:
    """Return the submission of a command line. Raises UnsupportedOptions; standard input has not been read then."""
    command_line = sbatch_options.split(words)
    if command_line.wrap is not None:
        if command_line.operands:
            raise UnsupportedOptions("--wrap together with a script")
        script = batch_script.WRAPPED.format(command_line.wrap).encode(errors="surrogateescape")
        return Submission(list(words), command_line.options, script, "wrap", has_options=False)
    if not command_line.operands:
        script = sys.stdin.buffer.read()  # from here on it cannot be left to sbatch
        return Submission(list(words), command_line.options, script, refused=batch_script.why_not(script))
    path = _find(command_line.operands[0], dict(sbatch_options.named(command_line.options)).get("chdir", ""))
    try:
        script = Path(path).read_bytes()
    except OSError as error:
        raise UnsupportedOptions(f"{path}: {error.strerror}") from None
    if reason := batch_script.why_not(script):
        raise UnsupportedOptions(f"{path}: {reason}")
    name = path.rpartition("/")[2]
    return Submission(list(words), command_line.options, script, name, path, command_line.operands[1:])


def _find(script: str, chdir: str) -> str:
    """As sbatch does: a name without a path is looked for in the job's folder, then in PATH. The result is what Slurm shows."""
    if script.startswith((".", "/")):
        return script
    here = os.getcwd()  # noqa: PTH109 - as sbatch joins it, not resolved
    places = [os.path.join(here, chdir) if chdir else here, *os.get_exec_path()]  # noqa: PTH118
    full = [f"{here}/{place}/{script}" if place.startswith(".") else f"{place}/{script}" for place in places]
    return next(filter(os.path.exists, full), script)


def submit(submission: Submission) -> int:
    """Run sbatch with the supervisor in the job's script; its exit code. Raises UsageError."""
    if submission.refused:
        elastic.check_left_alone(os.environ, submission.refused)
        remote_memory_request.check_left_alone(os.environ, submission.refused)
        log_line(f"left to sbatch as it is, so the job will not be preempted: {submission.refused}")
        return _pipe(submission.words, submission.script)
    asked = submission.asked()
    opportunistic.check_requeue(os.environ, asked)
    elastic.check_request(os.environ, asked)
    image_option.check_request(os.environ, asked, submission.script)
    if servers := parameter_servers.requested(os.environ, asked):
        return _submit_with_servers(submission, asked, servers)
    if chosen := remote_memory_request.options(os.environ, asked):
        return _submit_with_remote_memory(submission, asked, chosen)
    return _submit_checked(submission, asked)


def _submit_with_remote_memory(
    submission: Submission, asked: submit_options.SubmitOptions, chosen: tuple[str, ...]
) -> int:
    """Submit a job with memory of other nodes."""
    for option in chosen:
        submission = submission.with_option(option)
    if code := _submit_checked(submission, asked):
        log_line(remote_memory_request.not_submitted(chosen))
        return code
    return 0


def _submit_with_servers(
    submission: Submission, asked: submit_options.SubmitOptions, servers: parameter_servers.ServerRequest
) -> int:
    """Submit a job whose request holds the CPUs of parameter servers."""
    os.environ[environment.ELASTIC] = servers.sizes
    code = _submit_checked(submission.with_option(servers.option), asked)
    if code:
        log_line(
            f"not submitted with {servers.option}, for each worker and its part of {servers.servers} parameter servers"
        )
    return code


def _submit_checked(submission: Submission, asked: submit_options.SubmitOptions) -> int:
    child_process.run(lambda: _report(submission, asked), NOTE_TIMEOUT_S)
    number, site = os.urandom(16).hex(), settings.of_job(os.environ)
    is_piped = submission.has_options and not submission.path
    if not is_piped and (lines := _lines(submission, asked, site)):
        return _relay(["sbatch", f"--bbf={lines}", *submission.words], inserted.environment(number, asked, os.environ))
    if asked.get("requeue") == "no":
        site[environment.NO_REQUEUE] = "1"
    site[environment.SUBMISSION] = number
    text = batch_script.compose(submission.script, sys.executable, str(isolated.LIBRARY), site, submission.has_options)
    return _pipe(submission.words, text) if is_piped else _copy(submission, text)


def _lines(submission: Submission, asked: submit_options.SubmitOptions, site: Mapping[str, str]) -> Path | None:
    """The file that sbatch is to insert; None where its lines would not run in this script, or an option may be overlooked."""
    script = submission.script
    header = script if submission.has_options else b""
    if (
        not inserted.fits(script)
        or b"\n#PBS" in header
        or not submit_options.are_supported(submission.options, header)
        or {*_BURST_BUFFER} & asked.keys()
        or "SBATCH_BURST_BUFFER" in os.environ
    ):
        return None
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.expanduser raises where there is none
    if not home.startswith("/"):
        return None
    try:
        return inserted.file(inserted.text(sys.executable, str(isolated.LIBRARY), site), home)
    except OSError as error:
        log_line(
            f"{home}/.tiresias/batch: {error.strerror}: Slurm shows a private copy of the script as the job's Command"
        )
        return None


def _report(submission: Submission, asked: submit_options.SubmitOptions) -> None:
    """Print the scheduling note and record the script for the controller. Runs in a process of its own."""
    from tiresias.wrappers.scheduling_notes import submission_note

    submission_note.report(
        submission.name,
        submission.path,
        asked,
        submission.arguments,
        submission.script,
        silent=bool(submit_options.SILENT & asked.keys()),
    )


def _copy(submission: Submission, text: bytes) -> int:
    """sbatch with a private copy under the right name. Slurm shows that as the Command, where the controller finds the hash and
    the choices of `--opportunistic` and `--elastic`."""
    import tempfile  # here: few submissions need it

    from tiresias.protocol.job_kind import script_hash

    try:
        choices = [opportunistic.chosen(os.environ), os.environ.get(environment.ELASTIC, "")]
        of_job = "-".join(filter(None, [script_hash(submission.script), *choices]))
        with tempfile.TemporaryDirectory(prefix=f"tsbatch-{of_job}-") as folder:
            path = Path(folder, submission.name)
            path.write_bytes(text)
            return _relay(["sbatch", *submission.options, str(path), *submission.arguments])
    except OSError as error:
        log_line(f"the batch script cannot be written: {error}; set TMPDIR to a folder with free space")
        return 1


def _pipe(words: Sequence[str], text: bytes) -> int:
    """sbatch with the batch script on standard input, as the user gave it."""
    script = os.memfd_create("tsbatch")
    with os.fdopen(script, "wb") as file:
        file.write(text)
        file.flush()
        os.lseek(script, 0, os.SEEK_SET)
        os.dup2(script, 0)
    return _relay(["sbatch", *words])


def _relay(command: list[str], added: Mapping[str, str] | None = None) -> int:
    """Run sbatch and return its exit code. sbatch receives the terminal's signals itself: this process ignores them."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    reset = [number for number, handler in before.items() if handler != signal.SIG_IGN]
    try:
        process = os.posix_spawnp(
            command[0], command, {**os.environ, **(added or {})}, setsigdef=[*reset, signal.SIGPIPE, signal.SIGXFSZ]
        )
        _, status = os.waitpid(process, 0)
    except FileNotFoundError:
        log_line("sbatch is not in PATH: load your site's Slurm module")
        return 127
    except OSError as error:  # more words than a program can be given
        log_line(f"sbatch cannot be started: {error.strerror}")
        return 126
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _exec(words: list[str]) -> int:
    try:
        os.execvp("sbatch", ["sbatch", *words])
    except OSError:
        log_line("sbatch is not in PATH: load your site's Slurm module")
        return 127


if __name__ == "__main__":
    sys.exit(main())
