"""Images of a program's processes, made by DMTCP, for programs without checkpoints (`tsbatch --checkpoint=dmtcp`).

option.py          the choice, and what is refused at submission
image_saver.py     the supervisor's part: it starts the processes below
coordinator.py     DMTCP's coordinator of one run
dump.py            a process that dumps the image and commits it to the store
restore.py         a process that writes an image's files to the node and becomes the restored program
image_watch.py     a process that waits until the program runs, and registers it
mapped_processes.py  the processes of the program: what they execute, map and hold open
program_files.py   the identities of executables and libraries: a changed binary is refused
image_store.py     an image as a checkpoint of the store
"""
