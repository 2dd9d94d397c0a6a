"""What the end-to-end tests are built from: a node to run on, pods, a daemon, and ways to look."""
