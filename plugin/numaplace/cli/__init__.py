"""The command line: arguments, tables, exit codes."""
