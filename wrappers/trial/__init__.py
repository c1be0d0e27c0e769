"""The trial run: tsrun has a job that nobody knows yet recorded for its first iterations, and keeps what that tells.

begin.py   in tsrun: whether, and the variables that make the programs record
watch.py   a process beside srun: ends the recording when it tells enough, and writes the summary
fold.py    on every node: brings what was recorded there to the job's control folder
"""
