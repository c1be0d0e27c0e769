"""What tsbatch says of a submission: one line on standard error, by a process of its own.

wishes.py      what the options ask for
program.py     whether the program is seen to save
site.py        what is known here of the site's controller
treatment.py   what that will do with the job
line.py        the line
"""
