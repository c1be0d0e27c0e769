"""Replay of the workloads of Pollux' artifact (Qiao et al., OSDI 2021): elastic jobs at measured speeds, compared job by job."""
