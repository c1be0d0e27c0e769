"""The text of slurm.conf and related files for a private cluster. Pure: a spec in, text out.

Many nodes share one machine: each slurmd has its own port and name, and fake GPUs are null devices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tiresias.errors import UsageError
from tiresias.sandbox import paths
from tiresias.sandbox.rootfs import HOST_ADDRESS, HOST_NAME

FIRST_PORT = 17001
# Short intervals: Slurm's defaults schedule once a minute. disable_job_shrink: see the doctor's warning.
SCHEDULER_PARAMETERS = "sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_interval=1,disable_job_shrink"
DEVICE = "/dev/fakegpu"
POKE = "/opt/tiresias/etc/poke.sh"


@dataclass(frozen=True)
class ClusterSpec:
    """The parameters of a private cluster. `settings`: lines of slurm.conf that replace or extend the generated ones."""

    name: str = "default"
    suite: str = "forky"
    nodes: int = 15
    gpus_per_node: int = 4
    gpu_type: str = ""  # several, separated by commas: one for each socket; or with their numbers: a100:1,1g.10gb:6
    shared_gpus: str = ""  # a GRES that shares GPUs, and how many of it each GPU has: shard:4, mps:100
    cpus_per_node: int = 16
    memory_mb: int = 64000
    sockets_per_node: int = 1  # with equal shares of CPUs and GPUs; more than one adds a feature such as socket:2
    nodes_per_rack: int = 5
    # topology.conf: one switch or block for each rack; two switches for each spine. yaml: topology.yaml, with the switches as
    # "fabric", the default, and as "domains" the blocks and the pairs of them
    topology: Literal["flat", "tree", "block", "yaml"] = "flat"
    scheduler: Literal["backfill", "builtin"] = "backfill"
    accounting: bool = False
    hooks: bool = True
    # Slurm's task/cgroup limits memory and swap of jobs, in a memory cgroup (v1) of the cluster; FUSE and loop devices; root only
    memory_limits: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        paths.cluster_folder(self.name)
        for what, low, high in (
            ("nodes", 1, 4000),
            ("gpus_per_node", 0, 64),
            ("cpus_per_node", 1, 1024),
            ("nodes_per_rack", 1, 4000),
        ):
            if not low <= getattr(self, what) <= high:
                raise UsageError(f"{what} is {getattr(self, what)}: it must be from {low} to {high}")
        if not re.fullmatch(r"((shard|mps):[1-9]\d{0,3})?", self.shared_gpus):
            raise UsageError(f"shared_gpus is {self.shared_gpus}: write shard:N or mps:N, N of each GPU")
        if not re.fullmatch(r"[\w.,+-]*|[\w.+-]+:\d{1,2}(,[\w.+-]+:\d{1,2})*", self.gpu_type):
            raise UsageError(f"gpu_type is {self.gpu_type}: write TYPE, TYPE,TYPE or TYPE:N,TYPE:N")
        if ":" in self.gpu_type:
            self._check_counts()
        elif self.sockets_per_node % len(self.gpu_type.split(",")):
            raise UsageError(
                f"gpu_type is {self.gpu_type}: the number of types has to divide that of the sockets, {self.sockets_per_node}"
            )
        for what in ("cpus_per_node", "gpus_per_node"):
            if self.sockets_per_node < 1 or getattr(self, what) % self.sockets_per_node:
                raise UsageError(f"{what} is {getattr(self, what)}: {self.sockets_per_node} sockets cannot share them")

    @property
    def shares(self) -> tuple[str, int]:
        """The GRES that gives GPUs to jobs in parts, and its number on a node; "" and 0 without one."""
        name, _, count = self.shared_gpus.partition(":")
        return name, int(count or 0) * self.gpus_per_node

    def _check_counts(self) -> None:
        if sum(count for _, count in self.type_counts) != self.gpus_per_node or self.sockets_per_node > 1:
            raise UsageError(
                f"gpu_type is {self.gpu_type}: one socket with {self.gpus_per_node} GPUs cannot have these"
            )

    @property
    def type_counts(self) -> list[tuple[str, int]]:
        """GPU types with their numbers on a node; all GPUs without a type where there are none."""
        kinds = [one.partition(":") for one in self.gpu_type.split(",")]
        return [(kind, int(count or self.gpus_per_node // len(kinds))) for kind, _, count in kinds]

    @property
    def node_names(self) -> list[str]:
        """Names of the nodes, in order."""
        width = max(2, len(str(self.nodes)))
        return [f"gpu{number:0{width}}" for number in range(1, self.nodes + 1)]

    @property
    def daemon_user(self) -> str:
        """User of the controller: without slurmdbd there are no AdminLevels, so only SlurmUser (and root) may requeue any
        job.
        """
        return "tiresias" if self.accounting else "slurm"


def slurm_conf(spec: ClusterSpec, *, job_submit: bool, hooks: bool) -> str:
    """Return slurm.conf."""
    settings = {
        "ClusterName": spec.name,
        "SlurmctldHost": f"{HOST_NAME}({HOST_ADDRESS})",
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "StateSaveLocation": "/var/spool/slurm/ctld",
        "SlurmdSpoolDir": "/var/spool/slurm/%n",
        "SlurmctldPidFile": "/run/slurm/slurmctld.pid",
        "SlurmdPidFile": "/run/slurm/%n.pid",
        "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
        "SlurmdLogFile": "/var/log/slurm/%n.log",
        "SlurmdParameters": "config_overrides",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": "500",
        "GresTypes": ",".join(filter(None, ("gpu", spec.shares[0]))),
        "SchedulerType": f"sched/{spec.scheduler}",
        "SchedulerParameters": SCHEDULER_PARAMETERS,
        "ReturnToService": "2",
        "MinJobAge": "300",
        "MaxJobCount": "20000",
        "MaxArraySize": "10001",
        "KillWait": "30",  # Slurm's default: what a real centre has
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": "/var/log/slurm/jobcomp.log",
        **(_accounting() if spec.accounting else {}),
        **({"JobSubmitPlugins": "lua"} if job_submit else {}),
        **({"EpilogSlurmctld": POKE} if hooks else {}),
        **({"TaskPlugin": "task/cgroup"} if spec.memory_limits else {}),
        **({} if spec.topology in ("flat", "yaml") else {"TopologyPlugin": f"topology/{spec.topology}"}),
        **spec.settings,
    }
    return "\n".join([*(f"{key}={value}" for key, value in settings.items()), *_nodes(spec), *_partitions(), ""])


def gres_conf(spec: ClusterSpec) -> str:
    """Return gres.conf."""
    cpus, first, lines = spec.cpus_per_node // spec.sockets_per_node, 0, []
    for at, (kind, gpus) in enumerate(_of_sockets(spec) if spec.gpus_per_node else ()):
        files = f"File={DEVICE}{_range(first, gpus)}{_cores(spec, at * cpus, cpus)}"
        lines.append(f"Name=gpu {f'Type={kind} ' if kind else ''}{files}\n")
        first += gpus
    name, count = spec.shares
    shared = f"Name={name} Count={count}\n" if name else ""
    return "".join([*lines, shared])


def _of_sockets(spec: ClusterSpec) -> list[tuple[str, int]]:
    """Return the GPUs of each line: a type and their number; one line for each socket, or for each type with its number."""
    if ":" in spec.gpu_type:
        return spec.type_counts
    types, gpus = spec.gpu_type.split(","), spec.gpus_per_node // spec.sockets_per_node
    return [(types[socket * len(types) // spec.sockets_per_node], gpus) for socket in range(spec.sockets_per_node)]


def _range(first: int, count: int) -> str:
    return f"[{first}-{first + count - 1}]" if count > 1 else str(first)


def _cores(spec: ClusterSpec, first: int, count: int) -> str:
    return f" Cores={first}-{first + count - 1}" if spec.sockets_per_node > 1 else ""


def topology_conf(spec: ClusterSpec) -> str:
    """Return topology.conf."""
    racks = _racks(spec)
    if spec.topology == "block":
        blocks = [f"BlockName=block{rack} Nodes={names}\n" for rack, names in enumerate(racks, 1)]
        return "".join([*blocks, f"BlockSizes={spec.nodes_per_rack}\n"])
    leaves = [f"SwitchName=leaf{rack} Nodes={names}\n" for rack, names in enumerate(racks, 1)]
    pairs = [
        [f"leaf{rack}" for rack in (first, first + 1) if rack <= len(racks)] for first in range(1, len(racks) + 1, 2)
    ]
    spines = [f"SwitchName=spine{number} Switches={','.join(pair)}\n" for number, pair in enumerate(pairs, 1)]
    core = f"SwitchName=core Switches={','.join(f'spine{number}' for number in range(1, len(pairs) + 1))}\n"
    return "".join([*leaves, *spines, core])


def topology_yaml(spec: ClusterSpec) -> str:
    """Return topology.yaml, which Slurm reads from 25.05 on."""
    racks = _racks(spec)
    switches = [f"      - {{switch: leaf{rack}, nodes: '{names}'}}\n" for rack, names in enumerate(racks, 1)]
    blocks = [f"      - {{block: block{rack}, nodes: '{names}'}}\n" for rack, names in enumerate(racks, 1)]
    sizes = f"[{spec.nodes_per_rack}, {2 * spec.nodes_per_rack}]"
    tree = ["    switches:\n", f"      - {{switch: core, children: 'leaf[1-{len(racks)}]'}}\n", *switches]
    block = [f"    block_sizes: {sizes}\n", "    blocks:\n", *blocks]
    fabric = ["- topology: fabric\n", "  cluster_default: true\n", "  tree:\n", *tree]
    return "".join(["---\n", *fabric, "- topology: domains\n", "  cluster_default: false\n", "  block:\n", *block])


def _racks(spec: ClusterSpec) -> list[str]:
    """Return the nodes of each rack."""
    firsts = range(0, spec.nodes, spec.nodes_per_rack)
    return [",".join(spec.node_names[first : first + spec.nodes_per_rack]) for first in firsts]


def cgroup_conf(suite: str, memory_limits: bool = False) -> str:
    """Return cgroup.conf without cgroups; 22.05 has no such setting, but its v1 plugin does nothing until it is used."""
    if memory_limits:
        return "CgroupPlugin=cgroup/v1\nConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nAllowedSwapSpace=0\n"
    return f"CgroupPlugin={'cgroup/v1' if suite == 'bookworm' else 'disabled'}\n"


def hosts(spec: ClusterSpec) -> str:
    """Return /etc/hosts: programs resolve their first node by its name."""
    names = {"localhost": "127.0.0.1", HOST_NAME: HOST_ADDRESS, **dict.fromkeys(spec.node_names, "127.0.0.1")}
    return "".join(f"{address} {name}\n" for name, address in names.items())


def _nodes(spec: ClusterSpec) -> list[str]:
    each = [f"gpu:{kind + ':' if kind else ''}{count}" for kind, count in spec.type_counts]
    name, count = spec.shares
    shared = [f"{name}:{count}"] if name else []
    gres = f" Gres={','.join([*each, *shared])}" if spec.gpus_per_node else ""
    sockets, cores = spec.sockets_per_node, spec.cpus_per_node // spec.sockets_per_node
    layout = f" Sockets={sockets} CoresPerSocket={cores}" if sockets > 1 else ""
    feature = f",socket:{sockets}" if sockets > 1 else ""
    return [
        f"NodeName={name} NodeHostname={HOST_NAME} NodeAddr=127.0.0.1 Port={FIRST_PORT + index} CPUs={spec.cpus_per_node}{layout} "
        f"RealMemory={spec.memory_mb} Feature=rack{1 + index // spec.nodes_per_rack}{feature}{gres}"
        for index, name in enumerate(spec.node_names)
    ]


def _partitions() -> list[str]:
    return [
        "PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=other Nodes=ALL MaxTime=INFINITE State=UP",
    ]


def _accounting() -> dict[str, str]:
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": HOST_NAME,
        "AccountingStorageTRES": "gres/gpu",
        "AccountingStorageEnforce": "associations,limits,qos",
    }


def slurmdbd_conf() -> str:
    """Return slurmdbd.conf."""
    return "\n".join([
        "AuthType=auth/munge", f"DbdHost={HOST_NAME}", f"DbdAddr={HOST_ADDRESS}", "SlurmUser=slurm",
        "StorageType=accounting_storage/mysql", "StorageHost=localhost", "StorageUser=slurm", "StorageLoc=slurm_acct_db",
        "PidFile=/run/slurm/slurmdbd.pid", "LogFile=/var/log/slurm/slurmdbd.log", "",
    ])  # fmt: skip
