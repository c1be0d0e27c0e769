"""Several controllers with one state folder: the standby, the fence around the back end, and what is done when none leads."""
