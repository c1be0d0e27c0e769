"""tsbatch: sbatch for programs that can be preempted.

    tsbatch [any sbatch option] script [arguments]      as sbatch; also --wrap, and a script on standard input

The script runs under a supervisor that has it save and leave when the controller needs its GPUs, and the job is requeued and
appends to its log by default. Options, #SBATCH lines, standard output and exit code are sbatch's. What is not understood goes to
sbatch as it is. One line on standard error says what is to be expected: who schedules the job, whether it may be preempted, how it
is placed; with --test-only, without submitting; with --parsable or --quiet, never.

To see whether a script can be preempted and resumed, and what is missing:  tiresias rehearse script

TIRESIAS_CHECKPOINT=none       the program cannot save: plain sbatch, never preempted
TIRESIAS_CHECKPOINT=signal:TERM:outputs    at SIGTERM the program saves to the folder `outputs` and ends; it resumes by itself
TIRESIAS_FINAL_CODES=93,3 exit codes of the script after which the job is neither requeued nor resumed (default: 93)
TIRESIAS_CONTROL_ROOT, TIRESIAS_CHECKPOINT_ROOT, TIRESIAS_SIGNAL, TIRESIAS_PARK_TIMEOUT       override the site's configuration
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.checkpoint.notes import say
from tiresias.errors import UsageError
from tiresias.profiler.summary import script_hash
from tiresias.wrappers import batch_script, isolated, sbatch_options, self_saving, settings
from tiresias.wrappers.sbatch_options import NotUnderstood
from tiresias.wrappers.understood import wishes

PATIENCE = 5.0  # seconds for the line of what was understood; folders that hang must not hold up a submission


class Submission(NamedTuple):
    """words: sbatch's options; name: the file's, which sbatch takes as the job's name; arguments: the script's; own: the user's
    script, kind: its hash, both empty where it is sent on as it is."""

    words: list[str]
    name: str
    script: bytes
    arguments: list[str]
    own: bytes = b""
    kind: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # before sbatch had the script
        return 130


def _run(words: list[str]) -> int:
    if os.environ.get("TIRESIAS_CHECKPOINT") == "none":
        return _exec(words)
    try:
        self_saving.from_env(os.environ)
    except UsageError as error:
        say(str(error))
        return error.exit_code
    try:
        submission = understand(words)
    except NotUnderstood as reason:
        if str(reason):
            say(f"left to sbatch as it is, so the job will not be preempted: {reason}")
        return _exec(words)
    return submit(submission)


def understand(words: Sequence[str]) -> Submission:
    """What is to be submitted. Raises NotUnderstood; standard input has not been read then."""
    line = sbatch_options.split(words)
    if line.wrap is not None:
        if line.operands:
            raise NotUnderstood("--wrap together with a script")
        return _submission(
            line.options, "wrap", batch_script.WRAPPED.format(line.wrap).encode(errors="surrogateescape"), [], False
        )
    if not line.operands:
        return _from_stdin(line.options)
    path = _find(line.operands[0])
    try:
        script = path.read_bytes()
    except OSError as error:
        raise NotUnderstood(f"{path}: {error.strerror}") from None
    if reason := batch_script.why_not(script):
        raise NotUnderstood(f"{path}: {reason}")
    return _submission(line.options, path.name, script, line.operands[1:])


def _from_stdin(options: list[str]) -> Submission:
    script = sys.stdin.buffer.read()
    if reason := batch_script.why_not(script):  # it has been read, so it cannot be left to sbatch: sent on as it is
        say(f"left to sbatch as it is, so the job will not be preempted: {reason}")
        return Submission(options, "sbatch", script, [])
    return _submission(options, "sbatch", script, [])


def _submission(
    options: list[str], name: str, script: bytes, arguments: list[str], own_options: bool = True
) -> Submission:
    kind = script_hash(script)
    job = settings.of_job(os.environ) | {"TIRESIAS_SCRIPT": kind, "TIRESIAS_SUBMISSION": os.urandom(16).hex()}
    if wishes.of(options, script if own_options else b"", os.environ).get("requeue") == "no":
        job["TIRESIAS_NO_REQUEUE"] = "1"
    text = batch_script.compose(script, sys.executable, str(isolated.LIBRARY), job, own_options)
    return Submission(options, name, text, arguments, script, kind)


def _find(script: str) -> Path:
    """As sbatch does: a bare name is looked for here, then in PATH."""
    here = Path(script)
    if "/" in script or here.exists():
        return here
    found = [Path(folder, script) for folder in os.get_exec_path() if Path(folder, script).is_file()]
    return found[0] if found else here


def submit(submission: Submission) -> int:
    """Run sbatch on a private copy under the right name; its exit code.

    Slurm keeps the path of the copy with the job (scontrol's Command), so that the controller knows the hash of a script that
    waits: which of the user's profiles is the job's.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=f"tsbatch-{submission.kind}-") as folder:
            path = Path(folder, submission.name)
            path.write_bytes(submission.script)
            tell(submission)
            return _relay(["sbatch", *submission.words, str(path), *submission.arguments])
    except OSError as error:
        say(f"the batch script cannot be written: {error}; set TMPDIR to a folder with room")
        return 1


def tell(submission: Submission) -> None:
    """What was understood, by a process of its own (understood/line.py): a user's modules do not reach it, and it may hang."""
    if not submission.kind or wishes.SILENT & wishes.of(submission.words, submission.own, os.environ).keys():
        return
    words = [submission.name, str(len(submission.words)), *submission.words, *submission.arguments]
    command = isolated.command("tiresias.wrappers.understood.line", *words)
    with suppress(OSError):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        try:
            process.communicate(submission.own, PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()  # not waited for: where a folder hangs, it ends when that comes back


def _relay(command: list[str]) -> int:
    """sbatch has this terminal's signals too, and ends in its own way; so do we."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        code = subprocess.run(command, check=False, preexec_fn=_default_signals).returncode
    except FileNotFoundError:
        say("sbatch is not in PATH: load your site's Slurm module")
        return 127
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def _exec(words: list[str]) -> int:
    try:
        os.execvp("sbatch", ["sbatch", *words])
    except OSError:
        say("sbatch is not in PATH: load your site's Slurm module")
        return 127


if __name__ == "__main__":
    sys.exit(main())
