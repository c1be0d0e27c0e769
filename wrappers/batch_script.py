"""The batch script that tsbatch submits in the place of the user's where nothing can be inserted into that (inserted.py): a script
on standard input, or of another interpreter than a POSIX shell. Pure: text in, text out.

tsbatch's defaults    #SBATCH lines that come first, so that the user's own win
the user's header     every comment line up to the first command, as sbatch would read it
the supervisor        exec, with the batch script's own path and arguments
the marker, then the user's script unchanged
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from tiresias.protocol.batch_script_statements import INSERTED, MARKER
from tiresias.wrappers.inserted import START, options

DEFAULTS = ("--requeue", "--open-mode=append")  # come back after a preemption, into the same log
WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"  # what sbatch itself makes of --wrap
_HETEROGENEOUS = re.compile(rb"#SBATCH[ \t]+(hetjob|packjob)\b")

_BODY = """\
# The lines above are the script's own options after tsbatch's defaults. The script itself stands unchanged at the end.
{exports}python={python}
library={library}
if [ -x "$python" ] && [ -r "$library/tiresias/wrappers/supervisor.py" ]; then
    exec "$python" {options} -c {start} "$library" "$0" "$@"
fi
echo "tiresias: no $python or no $library on this node: the script runs alone and will not be preempted" >&2
script=$(mktemp) && sed '1,/^#---- tiresias: /d' "$0" > "$script" && chmod 700 "$script" && exec "$script" "$@"
exit 126
"""


def header(script: bytes) -> bytes:
    """Return the lines that sbatch reads: blank ones and comments up to the first command, without the `#!` line."""
    kept = []
    for line in script.split(b"\n")[1:]:
        if line.strip() and not line.lstrip().startswith(b"#"):
            break
        kept.append(line)
    return b"".join(line + b"\n" for line in kept if line.strip())


def why_not(script: bytes) -> str:
    """Return why this script cannot run under the supervisor, "" when it can."""
    if not script.startswith(b"#!"):
        return "it does not begin with #!"
    if MARKER in script or INSERTED in script:
        return "it comes from tsbatch already"
    if any(_HETEROGENEOUS.match(line) for line in header(script).split(b"\n")):
        return "a heterogeneous job"
    return ""


def compose(script: bytes, python: str, library: str, settings: Mapping[str, str], own_options: bool = True) -> bytes:
    """The batch script. settings: TIRESIAS_* variables for the job; own_options: whether `script` may hold #SBATCH lines."""
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(settings.items()))
    body = _BODY.format(
        exports=exports,
        python=shlex.quote(python),
        options=options(),
        library=shlex.quote(library),
        start=shlex.quote(START),
    )
    defaults = "".join(f"#SBATCH {option}\n" for option in DEFAULTS)
    return (
        b"#!/bin/sh\n" + defaults.encode() + (header(script) if own_options else b"") + _encode(body) + MARKER + script
    )


def _encode(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")
