"""Register a job with the manager of the parameter service and run its programs; or register it, or end it.

    python -m tiresias.services.parameter_service.agent.register --manager FILE --servers N --workers N -- COMMAND [ARGUMENT...]
    python -m tiresias.services.parameter_service.agent.register --manager FILE --servers N --workers N --out FILE
    python -m tiresias.services.parameter_service.agent.register --end --out FILE

With a command, such as `tsrun python3 train.py`, the job is registered before it and ended after it, also when it is preempted;
a command that fails is started again. The exit code is that of the command. Without a command, a batch script runs the second form
before its programs and the third one after them. The job file has mode 0600, because it has the job's key; its path in
TIRESIAS_PARAMETER_SERVICE is all that the programs need. A job that is registered again finds its file, keeps its key, and begins a
new run.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError, Unavailable, UsageError
from tiresias.services.parameter_service.agent.manager_link import ManagerLink, register
from tiresias.services.parameter_service.agent.registered_program import RegisteredProgram
from tiresias.services.parameter_service.agent.service_job import ServiceJob, read_job_file
from tiresias.services.parameter_service.messages.manager_messages import EndJob
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE, COMPRESSIONS

PAUSE_S = 2.0
END_TIMEOUT_S = 3.0  # of a preempted job: a few seconds after its save, Slurm kills what is left of it
RESTARTS = 3


def main(argv: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    at = words.index("--") if "--" in words else len(words)
    args, command = _parser().parse_args(words[:at]), words[at + 1 :]
    try:
        if args.end:
            _end(_out(args))
        elif command:
            return _programs(args, command).run()
        else:
            _register(args)
    except TiresiasError as error:
        print(f"tiresias: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _programs(args: argparse.Namespace, command: list[str]) -> RegisteredProgram:
    out = _out(args).absolute()
    return RegisteredProgram(str(out), command, args.restarts, lambda: _register(args), lambda: _end(out))


def _out(args: argparse.Namespace) -> Path:
    return args.out or Path(f"service-{args.job}.json")


def _register(args: argparse.Namespace) -> None:
    if args.manager is None or args.servers is None or args.workers is None:
        raise UsageError("--manager, --servers and --workers are required to register a job")
    out = _out(args)
    content = _new_run(out, args)
    end = time.monotonic() + args.timeout
    while True:
        try:
            register(args.manager, content["job"], content["key"], args.servers, args.workers, args.compress)
            break
        except Unavailable as error:
            if time.monotonic() > end:
                raise Unavailable(f"{error}; not registered within {args.timeout:g} s") from None
        time.sleep(PAUSE_S)
    print(f"{out}: job {content['job']} is registered, {args.servers} servers at most", flush=True)


def _new_run(out: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Write the job file of the next run and return its content, before the registration: a repeated one has the same key."""
    content = {"job": args.job, "key": secrets.token_hex(32)}
    if out.exists():
        content = read_job_file(out)
        if content["job"] != args.job:
            raise UsageError(f"{out}: is the file of job {content['job']}, not of {args.job}; name another --out")
    content |= {
        "manager": str(args.manager.absolute()),
        "servers": args.servers,
        "compress": args.compress,
        "run": int(content.get("run", 0)) + 1,
    }
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(content, file)
        temporary.replace(out)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from None
    return content


def _end(out: Path) -> None:
    content = read_job_file(out)
    if "manager" not in content:
        raise UsageError(f"{out}: the job is not registered with a manager")
    job = ServiceJob(out, content["job"], bytes.fromhex(content["key"]), 0, 0)
    link = ManagerLink(job, Path(content["manager"]), END_TIMEOUT_S)
    try:
        link.request(EndJob())
    finally:
        link.close()
    out.unlink(missing_ok=True)
    print(f"job {content['job']} has ended", flush=True)


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
    parser.add_argument(
        "--restarts",
        type=int,
        default=RESTARTS,
        metavar="N",
        help=f"how often the command starts again after a failure; {RESTARTS}",
    )
    parser.add_argument(
        "--compress",
        choices=COMPRESSIONS,
        default=COMPRESS_NONE,
        help="how gradients and parameters are compressed on their way; none",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="the job file; default: service-NAME.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
