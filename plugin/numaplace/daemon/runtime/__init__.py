"""What every part of the daemon uses: supervision, logs, HTTP pages."""
