"""Runs a donor: python -m tiresias.services.remote_memory.donor FILE

FILE is its configuration (donor_settings.py). SIGTERM ends it; its clients then read from their disks.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tiresias.errors import TiresiasError


def main(argv: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="FILE", help="the configuration, a JSON file with mode 0600")
    args = parser.parse_args(argv)
    from tiresias.services.remote_memory.donor.donor_process import Donor
    from tiresias.services.remote_memory.donor.donor_settings import read_donor_settings

    try:
        donor = Donor(read_donor_settings(args.file))
    except (TiresiasError, OSError) as error:
        print(f"tiresias: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: donor.stop())
    donor.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
