"""Register a job with the manager of the parameter service, and write its job file; or end it.

    python -m tiresias.services.parameter_service.agent.register --manager FILE --servers N --workers N --out FILE
    python -m tiresias.services.parameter_service.agent.register --end --out FILE

A batch script runs the first one before its programs, and the second one after them. The job file has mode 0600, because it has the
job's key; its path in TIRESIAS_PARAMETER_SERVICE is all that the programs need. A requeued job finds its file and keeps its key.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable, UsageError
from tiresias.services.parameter_service.agent.manager_link import ManagerLink, register
from tiresias.services.parameter_service.agent.service_job import ServiceJob, read_job_file
from tiresias.services.parameter_service.messages.manager_messages import EndJob

PAUSE_S = 2.0


def main(argv: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    args = _parser().parse_args(argv)
    try:
        if args.end:
            _end(args.out)
        else:
            _register(args)
    except TiresiasError as error:
        print(f"tiresias: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _register(args: argparse.Namespace) -> None:
    if args.manager is None or args.servers is None or args.workers is None:
        raise UsageError("--manager, --servers and --workers are required to register a job")
    content = _job_file(args)
    end = time.monotonic() + args.timeout
    while True:
        try:
            register(args.manager, content["job"], content["key"], args.servers, args.workers)
            break
        except Unavailable as error:
            if time.monotonic() > end:
                raise Unavailable(f"{error}; not registered within {args.timeout:g} s") from None
        time.sleep(PAUSE_S)
    print(f"{args.out}: job {content['job']} is registered, {args.servers} servers at most")


def _job_file(args: argparse.Namespace) -> dict[str, str]:
    """Return the content of the job file; it is written before the registration, so that a repeated one has the same key."""
    if args.out.exists():
        content = read_job_file(args.out)
        if content["job"] != args.job:
            raise UsageError(f"{args.out}: is the file of job {content['job']}, not of {args.job}; name another --out")
        return content
    content = {
        "job": args.job,
        "key": secrets.token_hex(32),
        "manager": str(args.manager.absolute()),
        "servers": args.servers,
    }
    temporary = args.out.with_name(f".{args.out.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(content, file)
        temporary.replace(args.out)
    except OSError as error:
        raise UsageError(f"{args.out}: cannot be written: {error.strerror}") from None
    return content


def _end(out: Path) -> None:
    content = read_job_file(out)
    if "manager" not in content:
        raise UsageError(f"{out}: the job is not registered with a manager")
    link = ManagerLink(ServiceJob(out, content["job"], bytes.fromhex(content["key"]), 0, 0), Path(content["manager"]))
    try:
        link.request(EndJob())
    finally:
        link.close()
    out.unlink(missing_ok=True)
    print(f"job {content['job']} has ended")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    job = f"slurm-{os.environ['SLURM_JOB_ID']}" if os.environ.get("SLURM_JOB_ID") else ""
    parser.add_argument("--job", default=job, required=not job, metavar="NAME", help="default: slurm-$SLURM_JOB_ID")
    parser.add_argument("--manager", type=Path, metavar="FILE", help="the file that the manager publishes")
    parser.add_argument("--servers", type=int, metavar="N", help="parameter servers that the job would have alone")
    parser.add_argument("--workers", type=int, metavar="N", help="ranks of the job")
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="S", help="seconds to wait for the manager; 600"
    )
    parser.add_argument(
        "--end", action="store_true", help="end the job: its tensors are dropped, and the file is removed"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the job file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
