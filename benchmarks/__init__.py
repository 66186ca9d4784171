"""Benchmarks: ratios against named alternatives, measured in one run."""
