"""The options of a submission by sbatch's precedence: command line, SBATCH_* variables, #SBATCH lines. Pure.

tsbatch itself uses this module: it imports nothing that a user's own modules could hide.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from tiresias.wrappers import batch_script, sbatch_options
from tiresias.wrappers.sbatch_options import UnsupportedOptions

_VARIABLES = {
    f"SBATCH_{name.upper().replace('-', '_')}": name
    for name in ("account", "gpus", "gpus-per-node", "gpus-per-task", "gres", "job-name", "partition", "reservation")
} | {"SBATCH_TIMELIMIT": "time"}
SILENT = frozenset({"parsable", "quiet"})  # programs read what sbatch prints then
SubmitOptions = Mapping[str, str]


def of(options: Sequence[str], script: bytes, env: Mapping[str, str]) -> SubmitOptions:
    """By long name; "" for an option without a value; requeue: "no" for --no-requeue. What sbatch will refuse is left out."""
    return {**_named(_directives(script)), **_from(env), **_named(options)}


def are_supported(options: Sequence[str], script: bytes) -> bool:
    """Whether every option is known here: else `of` may miss one of them."""
    try:
        sbatch_options.named([*options, *_words(script)])
    except (UnsupportedOptions, ValueError):
        return False
    return True


def asks_for_gpus(options: SubmitOptions) -> bool:
    """Whether the job requests GPUs."""
    counts = [value for name, value in options.items() if name.startswith("gpus")]
    named = [options.get(name, "") for name in ("gres", "tres-per-task")]
    return any(count != "0" for count in counts) or any("gpu" in value for value in named)


def sharing(options: SubmitOptions) -> str:
    """The GRES by which the job asks for a part of a GPU, shard or mps; "" where it does not."""
    named = [part for name in ("gres", "tres-per-task") for part in options.get(name, "").split(",")]
    found = [part.removeprefix("gres/").removeprefix("gres:").replace("=", ":").split(":")[0] for part in named]
    return next((name for name in found if name in ("shard", "mps")), "")


def _named(words: Sequence[str]) -> SubmitOptions:
    try:
        pairs = sbatch_options.named(words)
    except UnsupportedOptions:
        return {}
    return dict(("requeue", "no") if name == "no-requeue" else (name, value) for name, value in pairs)


def _from(env: Mapping[str, str]) -> SubmitOptions:
    found = {name: env[variable] for variable, name in _VARIABLES.items() if variable in env}
    return found | ({"requeue": "no"} if "SBATCH_NO_REQUEUE" in env else {})


def _directives(script: bytes) -> list[str]:
    """The words of the #SBATCH lines."""
    try:
        return _words(script)
    except ValueError:
        return []


def _words(script: bytes) -> list[str]:
    """Raises ValueError."""
    lines = [line for line in batch_script.header(script).split(b"\n") if line.startswith(b"#SBATCH")]
    return [word for line in lines for word in shlex.split(line[7:].decode(errors="replace"), comments=True)]
