"""Runs the manager: python -m tiresias.services.parameter_service.manager FILE

FILE is its configuration (manager_settings.py). A second one with the same state folder is the standby. SIGTERM ends it;
aggregators and jobs go on, and the next manager continues from the journal.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tiresias.errors import TiresiasError
from tiresias.services.parameter_service.manager.manager_process import ManagerProcess
from tiresias.services.parameter_service.manager.manager_settings import read_manager_settings


def main(argv: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="FILE", help="the configuration, a JSON file")
    args = parser.parse_args(argv)
    try:
        manager = ManagerProcess(read_manager_settings(args.file))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: manager.stop())
        manager.run()
    except (TiresiasError, OSError) as error:
        print(f"tiresias: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
