"""The daemon's configuration: file, environment and flags into one frozen record."""
