"""How a job uses its GPUs: measured on the job's first node by a process beside its script.

nvml_meter.py       utilisation of the job's GPUs, by NVIDIA's library where it is installed
dcgm_meter.py       the same by NVIDIA's dcgm-exporter, where a job has no such library
process_meter.py    CPU time of the job's processes, elsewhere
idle_times.py       for how long each GPU has been unused
activity_watcher.py the process: reports, and one line in the job's output
activity_watch.py   the supervisor's side of it
"""
