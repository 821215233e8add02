"""Measures programs of the benchmark side by side; see ../README.md."""
