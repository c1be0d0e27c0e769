"""The process around the controller: its loop, its configuration and reload, and the release of all holds."""
