"""Tests of range_reader_core."""
