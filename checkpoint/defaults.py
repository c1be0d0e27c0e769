"""Where the jobs' folders are at a site that has a configuration and names none in it: the controller and the wrappers agree."""

CONTROL = "/shared/tiresias/control"
CHECKPOINTS = "/shared/tiresias/checkpoints"
