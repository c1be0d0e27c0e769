"""The trial run: tsrun records the first iterations of a job without a profile, and stores the result.

begin.py   in tsrun: whether, and the variables that make the programs record
watch.py   a process beside srun: ends the recording once it suffices, and writes the summary
fold.py    on every node: brings what was recorded there to the job's control folder
"""
