"""What sbatch inserts into the user's own script: the lines that start the supervisor, after the `#!` line.

`sbatch --bbf=FILE` puts the content of FILE there once it has read the script from the user's path and taken its options. So Slurm
keeps that path (Command) and the user's words (SubmitLine). FILE is the user's, the same for all submissions with the same
settings, and stays: a SubmitLine can be given again. What differs from one submission to the next goes through the environment,
in a variable that begins with SLURM because those pass `--export=NONE`.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from zlib import crc32

from tiresias.protocol import environment as variables
from tiresias.protocol.batch_script_statements import INSERTED

NO_REQUEUE = "no-requeue"
DEFAULTS = {
    "requeue": ("SBATCH_REQUEUE", ""),
    "open-mode": ("SBATCH_OPEN_MODE", "append"),
}  # option -> variable and value
_SHELL = re.compile(rb"#![ \t]*(/\S*/)?(env[ \t]+)?(/\S*/)?(sh|bash|dash|ksh|zsh)([ \t]+(-[belu]+|--login))?[ \t\r]*\n")
_PAGE = 4096

START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tiresias.wrappers.supervisor import main; main()"
_LINES = """\
# tsbatch had sbatch insert the lines from here to the next line of dashes: they start the supervisor.
unset TIRESIAS_SUBMISSION TIRESIAS_SCRIPT TIRESIAS_NO_REQUEUE
{exports}if [ -x {python} ] && [ -r {library}/tiresias/wrappers/supervisor.py ]; then
    exec {python} {options} -c {start} {library} "$0" "$@"
fi
echo tiresias: no {python} or no {library} on this node: the script runs alone and will not be preempted >&2
"""


def fits(script: bytes) -> bool:
    """Whether the lines can stand in the script: a POSIX shell runs it, and does not print each line that it runs."""
    return bool(_SHELL.match(script))


def options() -> str:
    """Return Python's options for the supervisor, quoted for a shell.

    -I hides PYTHONPYCACHEPREFIX. Where it is set, as for an installation that users cannot write to, the supervisor would compile
    all its modules at each start.
    """
    prefix = sys.pycache_prefix
    return "-I -S" + (f" -X {shlex.quote(f'pycache_prefix={prefix}')}" if prefix else "")


def text(python: str, library: str, settings: Mapping[str, str]) -> bytes:
    """Return the lines to insert; settings: TIRESIAS_* variables for the job.

    Never a whole number of pages: sbatch reads the file from a map up to the first NUL.
    """
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(settings.items()))
    lines = _LINES.format(
        exports=exports,
        python=shlex.quote(python),
        options=options(),
        library=shlex.quote(library),
        start=shlex.quote(START),
    )
    content = lines.encode("utf-8", errors="surrogateescape") + INSERTED
    return content if len(content) % _PAGE else b"#\n" + content


def file(content: bytes, home: str) -> Path:
    """The user's file with this content. Raises OSError."""
    folder = Path(home) / ".tiresias" / "batch"
    path = folder / f"supervised-{crc32(content):08x}.sh"  # a name, no proof: its content is compared
    if not _holds(path, content):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = folder / f".{path.name}.{os.getpid()}"
        temporary.write_bytes(content)
        temporary.replace(path)
    return path


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except FileNotFoundError:
        return False


def environment(number: str, asked: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Variables for sbatch. asked: all options together (scheduling_notes/submit_options.py)."""
    added = {
        variable: value for option, (variable, value) in DEFAULTS.items() if option not in asked and variable not in env
    }
    flags = [NO_REQUEUE] if asked.get("requeue") == "no" else []
    return added | {variables.SUBMITTED: ",".join([number, *added, *flags])}


def adopt(env: MutableMapping[str, str]) -> None:
    """In the job: turn what came along into the variables that the supervisor reads. Jobs that it submits inherit nothing of it."""
    number, *flags = env.pop(variables.SUBMITTED, "").split(",")
    if number:
        env[variables.SUBMISSION] = number
    if NO_REQUEUE in flags:
        env[variables.NO_REQUEUE] = "1"
    for variable, _ in DEFAULTS.values():
        if variable in flags:
            env.pop(variable, None)
