"""Hands a job to aggregators without a manager, and writes its job file.

    python -m tiresias.services.parameter_service.aggregator.adopt JOB --service-key FILE --workers N --out FILE ADDRESS ...

The job file has mode 0600. Its path in TIRESIAS_PARAMETER_SERVICE is all that the job's programs need.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from tiresias.errors import TiresiasError, UsageError
from tiresias.services.parameter_service.aggregator.hosted_job import replace_privately
from tiresias.services.parameter_service.messages.aggregator_messages import AdoptJob
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.peer_identity import service_identity
from tiresias.services.wire.private_files import read_service_key
from tiresias.services.wire.session_messages import Accepted
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE, COMPRESSIONS


def main(argv: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    args = _parser().parse_args(argv)
    settings = AdoptJob(
        args.job,
        secrets.token_hex(32),
        args.workers,
        args.memory_mib << 20,
        "asynchronous" if args.staleness is not None else "synchronous",
        args.staleness or 0,
        args.on_nan,
        args.push_timeout,
        args.compress,
    )
    try:
        key = read_service_key(args.service_key)
        for address in args.address:
            adopt_job(address, key, settings)
    except TiresiasError as error:
        print(f"tiresias: {error}", file=sys.stderr)
        return error.exit_code
    content = {"job": args.job, "key": settings.key, "aggregators": args.address, "compress": args.compress}
    replace_privately(args.out, content)
    print(f"{args.out}: job {args.job} on {', '.join(args.address)}")
    return 0


def adopt_job(address: str, service_key: bytes, settings: AdoptJob) -> None:
    """Hand a job to an aggregator.

    Raises:
        UsageError: The aggregator refuses it.
        TiresiasError: It cannot be reached or does not have the key.
    """
    channel = Channel.connect(address, service_identity("adopt"), service_key)
    try:
        answer = channel.request(settings)
    finally:
        channel.close()
    if not isinstance(answer, Accepted):
        raise UsageError(f"{address}: {getattr(answer, 'text', 'an unexpected answer')}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", metavar="JOB", help="the job's name: letters, digits, '.', '_' and '-'")
    parser.add_argument("address", nargs="+", metavar="ADDRESS", help="an aggregator, as host:port")
    parser.add_argument(
        "--service-key", type=Path, required=True, metavar="FILE", help="the key of the service, mode 0600"
    )
    parser.add_argument("--workers", type=int, required=True, metavar="N", help="ranks of the job")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the job file that is written")
    parser.add_argument(
        "--memory-mib", type=int, default=4096, metavar="N", help="bound of its tensors on an aggregator; 4096"
    )
    parser.add_argument(
        "--staleness", type=int, metavar="N", help="asynchronous, a rank at most N steps ahead of the slowest"
    )
    parser.add_argument(
        "--on-nan", choices=("stop", "skip"), default="stop", help="what NaN or Inf in a gradient does; stop"
    )
    parser.add_argument(
        "--push-timeout", type=float, default=600.0, metavar="S", help="seconds that a step waits for a rank; 600"
    )
    parser.add_argument(
        "--compress", choices=COMPRESSIONS, default=COMPRESS_NONE, help="gradients and parameters on their way; none"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
