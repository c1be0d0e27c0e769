"""What crosses the border between two processes: files, environment variables, identities, and the controller's status.

The program, the supervisor, the submitting command and the controller of one job may come from up to three installations. What
they exchange is defined here, once. Standard library only; a module imports nothing of this project but other modules of this
folder and `tiresias.errors`.
"""
