"""Tests of what the benchmarks compute; how long things take is not tested."""
