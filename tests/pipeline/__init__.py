"""Tests of range_reader_pipeline."""
