"""The API server's part in the daemon: pods, Events."""
