"""The environment variables of this project: the name of each, what sets it, what reads it, and its meaning.

All code takes the names from here. The variables of the controller's options are not listed: `of_option` returns their names.
docs/environment_page.py writes the reference page from this module.
"""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "TIRESIAS_"


class Variable(NamedTuple):
    """One environment variable.

    Attributes:
        name: Its name.
        set_by: The program, or the person, that sets it.
        read_by: The programs that read it.
        meaning: Its value, with the unit and the default.
    """

    name: str
    set_by: str
    read_by: str
    meaning: str


VARIABLES: list[Variable] = []  # in the order of this file


def of_option(key: str) -> str:
    """Return the variable of an option of the controller's configuration: `policy.min_run` has TIRESIAS_POLICY_MIN_RUN."""
    return PREFIX + key.upper().replace(".", "_")


def _variable(name: str, set_by: str, read_by: str, meaning: str) -> str:
    VARIABLES.append(Variable(name, set_by, read_by, meaning))
    return name


# Set for one submission; fixed in the job at its submission.

CONTROL_ROOT = _variable(
    "TIRESIAS_CONTROL_ROOT",
    "the site's module file or the user",
    "tsbatch, which passes it to the job; the supervisor, `tiresias profile`, `tiresias sandbox rehearse`",
    "folder of all jobs' control folders; by default `paths.control`, and `~/.tiresias/control` on a host without the site's "
    "configuration",
)
CHECKPOINT_ROOT = _variable(
    "TIRESIAS_CHECKPOINT_ROOT",
    "the site's module file or the user",
    "tsbatch, which passes it to the job; the supervisor, `tiresias sandbox rehearse`",
    "folder of all jobs' checkpoint folders; by default `paths.checkpoints`, and `~/.tiresias/checkpoints` on a host without the "
    "site's configuration",
)
SIGNAL = _variable(
    "TIRESIAS_SIGNAL",
    "the user at submission; the supervisor for the job's programs",
    "tsbatch, the supervisor, the checkpoint library",
    "name of the checkpoint signal; by default `preemption.signal`, else USR2",
)
SAVE_DEADLINE = _variable(
    "TIRESIAS_SAVE_DEADLINE",
    "tsbatch from the site's `preemption.deadline`, or the user",
    "the supervisor",
    "seconds after which an incomplete save is reported in the log; 120",
)
FINAL_CODES = _variable(
    "TIRESIAS_FINAL_CODES",
    "the user at submission, else tsbatch from `preemption.final_codes`",
    "the supervisor",
    "exit codes of the script after which the job is neither requeued nor resumed, such as `93,3`, or `none`; 93",
)
PLACEMENT_BANDWIDTH = _variable(
    "TIRESIAS_PLACEMENT_BANDWIDTH",
    "tsbatch from the site's `placement.bandwidth`",
    "the process that analyses a trial recording",
    "also the option `placement.bandwidth`: Gbit/s of a node's network, one way; unset or 0: as the nodes' own adapters report",
)
PLACEMENT_PACKLIMIT = _variable(
    "TIRESIAS_PLACEMENT_PACKLIMIT",
    "tsbatch from the site's `placement.packlimit`",
    "the process that analyses a trial recording",
    "also the option `placement.packlimit`: the skew above which jobs with parameter servers are consolidated",
)
IDLE_GPUS_ACTION = _variable(
    "TIRESIAS_IDLE_GPUS_ACTION",
    "tsbatch from the site's `idle_gpus.action`",
    "the supervisor",
    "also the option `idle_gpus.action`: `off`: the use of GPUs is not reported; `show`; `warn` and `demote`: the job's output "
    "reports that it does not use them",
)
IDLE_GPUS_BELOW = _variable(
    "TIRESIAS_IDLE_GPUS_BELOW",
    "tsbatch from the site's `idle_gpus.below`",
    "the supervisor, which passes it to the process that reports the use of GPUs",
    "also the option `idle_gpus.below`: the use, 0 to 1, below which a GPU counts as unused; 0.05",
)
IDLE_GPUS_WARN_AFTER = _variable(
    "TIRESIAS_IDLE_GPUS_WARN_AFTER",
    "tsbatch from the site's `idle_gpus.warn_after`",
    "the supervisor, which passes it to the process that reports the use of GPUs",
    "also the option `idle_gpus.warn_after`: seconds without use after which the job's output reports it; 1800",
)
IDLE_GPUS_INTERVAL = _variable(
    "TIRESIAS_IDLE_GPUS_INTERVAL",
    "tsbatch from the site's `idle_gpus.interval`",
    "the supervisor",
    "also the option `idle_gpus.interval`: seconds between two reports of the use of GPUs; 60",
)
CHECKPOINT = _variable(
    "TIRESIAS_CHECKPOINT",
    "the user at submission",
    "tsbatch, the supervisor",
    "also `tsbatch --checkpoint`: `none`: the program cannot save, and the job is plain sbatch's; `signal:NAME:FOLDER`: at this "
    "signal it saves by itself to this folder; `dmtcp` or `criu`: this tool dumps its processes as an image",
)
STEPS_FROM = _variable(
    "TIRESIAS_STEPS_FROM",
    "tsbatch from its option `--steps-from`, or the user at submission",
    "the supervisor",
    "regular expression of the lines in which the program prints its step and the total number of steps; unset: none",
)
OPPORTUNISTIC = _variable(
    "TIRESIAS_OPPORTUNISTIC",
    "tsbatch from its option `--opportunistic`, or the user at submission",
    "tsbatch, the supervisor",
    "`yes`, `no` or `restart`: whether the job may run beyond the cells of its virtual cluster; `yes`",
)
ELASTIC = _variable(
    "TIRESIAS_ELASTIC",
    "tsbatch from its option `--elastic`, or the user at submission",
    "tsbatch, the supervisor",
    "MIN-MAX[:STEP]: the numbers of GPUs that the job can use; unset: those that it requests",
)
PARAMETER_SERVICE = _variable(
    "TIRESIAS_PARAMETER_SERVICE",
    "the command that registers the job with the parameter service, or the user",
    "the agent of the parameter service, in the training program",
    "path of the job file of the parameter service: the job's name and key, and the addresses of aggregators",
)
SERVER_COUNTS = _variable(
    "TIRESIAS_SERVER_COUNTS",
    "tsbatch from its option `--servers`, or the user at submission",
    "tsbatch",
    "MIN-MAX or MIN-MAX:async: the numbers of parameter servers that an elastic job can use; unset: it has none",
)
REMOTE_MEMORY = _variable(
    "TIRESIAS_REMOTE_MEM",
    "tsbatch from its option `--remote-mem`, or the user at submission",
    "tsbatch",
    "N, N:node or N:task: memory beyond `--mem` that other nodes lend to the job, for each node or task; unset: none",
)
PARK_TIMEOUT = _variable(
    "TIRESIAS_PARK_TIMEOUT",
    "the user at submission",
    "the supervisor",
    "seconds from a committed checkpoint until the script runs again where no requeue comes; 90",
)
PROFILE = _variable(
    "TIRESIAS_PROFILE",
    "the user",
    "tsrun, the recorder's libraries",
    "`0`: the traffic is not recorded",
)
PROFILE_LIBRARIES = _variable(
    "TIRESIAS_PROFILE_LIBRARIES",
    "the site's module file or the user",
    "the profiler",
    "folder of the recorder's libraries; unset: those of the installation, else they are built below `~/.cache`",
)

# Set by the launcher of programs with a region of remote memory (services/remote_memory/region).

REMEM_LIBRARIES = _variable(
    "TIRESIAS_REMEM_LIBRARIES",
    "the site's module file or the user",
    "the launcher of programs with a region of remote memory",
    "folder of libtiresias_remem; unset: those of the installation, else they are built below `~/.cache`",
)
REMEM_FILE = _variable(
    "TIRESIAS_REMEM_FILE",
    "the launcher of programs with a region of remote memory",
    "libtiresias_remem",
    "the configuration of the program's region, an absolute path; unset: it has none",
)
REMEM_PYTHON = _variable(
    "TIRESIAS_REMEM_PYTHON",
    "the launcher of programs with a region of remote memory",
    "libtiresias_remem",
    "the Python that resolves the page faults of the region; by default `/usr/bin/python3`",
)
REMEM_LEAST = _variable(
    "TIRESIAS_REMEM_LEAST",
    "the launcher of programs with a region of remote memory",
    "libtiresias_remem",
    "bytes from which on the preloaded library puts a block in the region; unset: no block",
)
REMEM_REGIONS = _variable(
    "TIRESIAS_REMEM_REGIONS",
    "the launcher of programs with a region of remote memory",
    "libtiresias_remem",
    "how many programs of one launch may have a region at the same time; by default 1",
)
REMEM_LAUNCH = _variable(
    "TIRESIAS_REMEM_LAUNCH",
    "the launcher of programs with a region of remote memory",
    "libtiresias_remem",
    "a random name of the launch, whose regions are counted; unset: they are not",
)

# Set by tsbatch and the supervisor for the job.

SUBMITTED = _variable(
    "SLURM_TIRESIAS",
    "tsbatch for sbatch",
    "the supervisor, which removes it",
    "what differs between two submissions: TIRESIAS_SUBMISSION, the names of the SBATCH_* variables that tsbatch set, "
    "`no-requeue`; separated by commas. SLURM_* variables pass `--export=NONE`",
)
SUBMISSION = _variable(
    "TIRESIAS_SUBMISSION",
    "tsbatch",
    "the supervisor, the checkpoint library",
    "a random number, one for each submission: it identifies folders of an older job with the same id",
)
NO_REQUEUE = _variable(
    "TIRESIAS_NO_REQUEUE",
    "tsbatch",
    "the supervisor",
    "`1` where the job was submitted with `--no-requeue`",
)
SCRIPT = _variable(
    "TIRESIAS_SCRIPT",
    "the supervisor",
    "tsrun, the supervisor",
    "hash of the user's script: jobs with the same one are of one kind",
)
CONTROL = _variable(
    "TIRESIAS_CONTROL",
    "the supervisor",
    "the checkpoint library, tsrun, the requeue shim",
    "the job's control folder; protocol/control.py describes its files",
)
CHECKPOINT_DIR = _variable(
    "TIRESIAS_CHECKPOINT_DIR",
    "the supervisor",
    "the checkpoint library, the user's script",
    "the job's checkpoint folder, `<root>/<job id>`; `<root>/<job id>-<uid>` where an older job of another user has that folder",
)
RESTART = _variable(
    "TIRESIAS_RESTART",
    "the supervisor",
    "the checkpoint library, tsrun, the requeue shim",
    "Slurm's restart count of this run; 0 in the first",
)
SERVERS = _variable(
    "TIRESIAS_SERVERS",
    "the supervisor",
    "the user's script",
    "number of parameter servers of this run, of a job with `--servers`; unset: none",
)
RUN_ID = _variable(
    "TIRESIAS_RUN_ID",
    "the supervisor",
    "the user's script",
    "the same in all runs of a job: for experiment trackers",
)

# The checkpoint library.

KEEP = _variable(
    "TIRESIAS_KEEP",
    "the user",
    "the checkpoint library",
    "number of the newest checkpoints that are kept; 2, at least 2",
)
KEEP_EVERY = _variable(
    "TIRESIAS_KEEP_EVERY",
    "the user",
    "the checkpoint library",
    "steps: the first checkpoint at or after each multiple is kept for ever; unset: none",
)
KEEP_VERIFIED = _variable(
    "TIRESIAS_KEEP_VERIFIED",
    "the user",
    "the checkpoint library",
    "`1`: checkpoints are kept down to the newest one that was read back whole",
)

# The recorder of the profiler.

PROFILE_DIR = _variable(
    "TIRESIAS_PROFILE_DIR",
    "tsrun",
    "the recorder's libraries",
    "absolute path of the folder on the node that recordings are written to; unset: nothing is recorded",
)
PROFILE_BYTES = _variable(
    "TIRESIAS_PROFILE_BYTES",
    "tsrun",
    "the recorder's libraries",
    "most bytes of one process's recording",
)

# Programs beside the controller.

POKE_SOCKET = _variable(
    "TIRESIAS_POKE_SOCKET",
    "the administrator",
    "etc/poke.sh",
    "the controller's poke socket; `/run/tiresias/poke.sock`",
)
PRIMARY = _variable(
    "TIRESIAS_PRIMARY",
    "the administrator",
    "etc/primary.sh",
    "the file by which slurmctld's primary hook asks the controller of its host to request the lead; `/run/tiresias/primary`",
)
SANDBOX_HOME = _variable(
    "TIRESIAS_SANDBOX_HOME",
    "the user",
    "`tiresias sandbox`",
    "folder of the private cluster's file systems; `~/.cache/tiresias/sandbox`",
)
DEBIAN_MIRROR = _variable(
    "TIRESIAS_DEBIAN_MIRROR",
    "the user",
    "`tiresias sandbox`",
    "the Debian mirror; `http://deb.debian.org/debian`",
)
NATIVE = _variable(
    "TIRESIAS_NATIVE",
    "the packager",
    "the build of the wheel (hatch_build.py)",
    "the recorder's libraries in the wheel: unset: built with it; `0`: their source alone; a folder: those of that folder",
)
RPM_PYTHON = _variable(
    "TIRESIAS_RPM_PYTHON",
    "the packager",
    "etc/packages/rpm.py",
    "the Python version of the package, such as 3.11; unset: that of the distribution",
)
