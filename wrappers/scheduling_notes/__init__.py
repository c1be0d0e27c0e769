"""The scheduling note of a submission: one line on standard error, printed by a process of its own.

submit_options.py    the options of the submission
save_detection.py    whether its program saves checkpoints
site_controller.py   the site's controller as a submission sees it
wording.py           the words of the note
submission_note.py   the note, and a record of the script for the controller
"""
