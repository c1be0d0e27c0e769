"""Programs with a region of remote memory: python -m tiresias.services.remote_memory.region PART

run FILE -- PROGRAM ARGUMENTS    execute a program whose large blocks of memory are in a region; FILE is the configuration
                                 (program_settings.py)
node                             print in one line whether this kernel and user can have a region
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable, one_line
from tiresias.protocol import environment
from tiresias.protocol.native_source import NativeSource
from tiresias.services.remote_memory.region.program_settings import (
    ProgramSettings,
    check_disk,
    read_program_settings,
)
from tiresias.services.remote_memory.region.region_ability import region_ability, require_userfault

NATIVE = Path(__file__).resolve().parents[1] / "native"
LIBRARY, PRELOADED = "libtiresias_remem.so", "libtiresias_remem_preload.so"


def main(argv: list[str] | None = None) -> int:
    """Run one part; return the exit code."""
    args = _parser().parse_args(argv)
    try:
        if args.part == "node":
            print(region_ability())
        else:
            execute(args.file, args.program)
    except (TiresiasError, OSError) as error:
        print(f"tiresias: {one_line(error)}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("node")
    run = parts.add_parser("run")
    run.add_argument("file", type=Path, metavar="FILE")
    run.add_argument("program", nargs="+", metavar="PROGRAM")
    return parser


def execute(file: Path, program: list[str]) -> None:
    """Check all that can be checked before, and execute the program in place of this process.

    Raises:
        TiresiasError: The configuration, the disk, the library or the kernel prevents a region: the program does not start.
        Unavailable: There is no such program.
    """
    settings = read_program_settings(file)
    check_disk(settings)
    require_userfault()
    library = remem_source().built() / PRELOADED
    if set(str(library)) & set(" :"):
        raise Unavailable(
            f"{library}: LD_PRELOAD takes no path with spaces or colons; set {environment.REMEM_LIBRARIES}"
        )
    if not shutil.which(program[0]):
        raise Unavailable(f"{program[0]}: no such program")
    os.execvpe(program[0], program, program_environment(settings, file, library))


def remem_source() -> NativeSource:
    """Return the source of libtiresias_remem."""
    return NativeSource(NATIVE, LIBRARY, environment.REMEM_LIBRARIES, "the libraries of remote memory")


def program_environment(settings: ProgramSettings, file: Path, library: Path) -> dict[str, str]:
    """Return this process's environment with what the preloaded library reads; other preloaded libraries stay."""
    before, path = os.environ.get("LD_PRELOAD", ""), os.environ.get("PYTHONPATH", "")
    absolute = os.pathsep.join(str(Path(each).absolute()) for each in path.split(os.pathsep))  # the handler runs in /
    return {
        **os.environ,
        **({"PYTHONPATH": absolute} if path else {}),
        "LD_PRELOAD": f"{library} {before}".strip(),
        environment.REMEM_FILE: str(file.absolute()),
        environment.REMEM_PYTHON: sys.executable,
        environment.REMEM_LEAST: str(settings.least_bytes),
        environment.REMEM_REGIONS: str(settings.regions),
        environment.REMEM_LAUNCH: secrets.token_hex(8),
    }


if __name__ == "__main__":
    sys.exit(main())
