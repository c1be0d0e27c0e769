"""Runs an aggregator: python -m tiresias.services.parameter_service.aggregator FILE

FILE is its configuration (aggregator_settings.py). SIGTERM ends it; its master copies remain in the state folder, and the next
process on that folder goes on with them.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from tiresias.errors import TiresiasError

SWITCH_INTERVAL_S = 0.0005


def main(argv: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="FILE", help="the configuration, a JSON file with mode 0600")
    args = parser.parse_args(argv)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # NumPy starts no threads of its own: the data thread is one core's work
    from tiresias.services.parameter_service.aggregator.aggregator_process import Aggregator
    from tiresias.services.parameter_service.aggregator.aggregator_settings import read_aggregator_settings

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        aggregator = Aggregator(read_aggregator_settings(args.file))
    except (TiresiasError, OSError) as error:
        print(f"tiresias: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: aggregator.stop())
    aggregator.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
