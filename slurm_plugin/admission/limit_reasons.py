"""Slurm's reasons for jobs that a limit blocks (job_state_reason.c, acct_policy.c)."""

from __future__ import annotations

# by limit: the reasons for cpu, mem, node and any other TRES
_REASONS = {
    "QOSGrp": ("QOSGrpCpuLimit", "QOSGrpMemLimit", "QOSGrpNodeLimit", "QOSGrp{}"),
    "QOSGrpMins": ("QOSGrpCPUMinutesLimit", "QOSGrpMemoryMinutes", "QOSGrpNodeMinutes", "QOSGrp{}Minutes"),
    "QOSGrpRunMins": (
        "QOSGrpCPURunMinutesLimit", "QOSGrpMemoryRunMinutes", "QOSGrpNodeRunMinutes", "QOSGrp{}RunMinutes",
    ),
    "QOSJob": ("QOSMaxCpuPerJobLimit", "QOSMaxMemoryPerJob", "QOSMaxNodePerJobLimit", "QOSMax{}PerJob"),
    "QOSJobMins": (
        "QOSMaxCpuMinutesPerJobLimit", "QOSMaxMemoryMinutesPerJob", "QOSMaxNodeMinutesPerJob", "QOSMax{}MinutesPerJob",
    ),
    "QOSNode": ("QOSMaxCpuPerNode", "QOSMaxMemoryPerNode", "QOSMaxUnknownPerNode", "QOSMax{}PerNode"),
    "QOSMin": ("QOSMinCpuNotSatisfied", "QOSMinMemory", "QOSMinNode", "QOSMin{}"),
    "QOSUser": ("QOSMaxCpuPerUserLimit", "QOSMaxMemoryPerUser", "QOSMaxNodePerUserLimit", "QOSMax{}PerUser"),
    "QOSAccount": ("MaxCpuPerAccount", "MaxMemoryPerAccount", "MaxNodePerAccount", "Max{}PerAccount"),
    "QOSUserRunMins": (
        "MaxCpuRunMinsPerUser", "MaxMemoryRunMinsPerUser", "MaxNodeRunMinsPerUser", "Max{}RunMinsPerUser",
    ),
    "QOSAccountRunMins": (
        "MaxCpuRunMinsPerAccount", "MaxMemoryRunMinsPerAccount", "MaxNodeRunMinsPerAccount", "Max{}RunMinsPerAccount",
    ),
    "AssocGrp": ("AssocGrpCpuLimit", "AssocGrpMemLimit", "AssocGrpNodeLimit", "AssocGrp{}"),
    "AssocGrpMins": ("AssocGrpCPUMinutesLimit", "AssocGrpMemMinutes", "AssocGrpNodeMinutes", "AssocGrp{}Minutes"),
    "AssocGrpRunMins": (
        "AssocGrpCPURunMinutesLimit", "AssocGrpMemRunMinutes", "AssocGrpNodeRunMinutes", "AssocGrp{}RunMinutes",
    ),
    "AssocJob": ("AssocMaxCpuPerJobLimit", "AssocMaxMemPerJob", "AssocMaxNodePerJobLimit", "AssocMax{}PerJob"),
    "AssocJobMins": (
        "AssocMaxCpuMinutesPerJobLimit", "AssocMaxMemMinutesPerJob", "AssocMaxNodeMinutesPerJob", "AssocMax{}MinutesPerJob",
    ),
    "AssocNode": ("AssocMaxCpuPerNode", "AssocMaxMemPerNode", "AssocMaxUnknownPerNode", "AssocMax{}PerNode"),
}  # fmt: skip
_PLAIN = ("cpu", "mem", "node")
_OTHERS = {"gres": "GRES", "license": "License", "billing": "Billing", "energy": "Energy", "bb": "BB"}


def reason(limit: str, tres: str) -> str:
    """Return the reason of a limit (a key of _REASONS) of a TRES, such as "gres/gpu:v100"."""
    words = _REASONS[limit]
    kind = tres.partition("/")[0]
    return words[_PLAIN.index(kind)] if kind in _PLAIN else words[3].format(_OTHERS.get(kind, "Unknown"))
