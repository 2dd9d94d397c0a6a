"""Speed and size, side by side with a reference in the same run (``make bench``). See docs/benchmarks.md."""
