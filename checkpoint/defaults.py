"""Where the jobs' folders and the run folder are where no configuration names others: the controller and the wrappers agree."""

CONTROL = "/shared/tiresias/control"
CHECKPOINTS = "/shared/tiresias/checkpoints"
RUN = "/run/tiresias"
