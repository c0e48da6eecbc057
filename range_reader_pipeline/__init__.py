"""The Dagster pipeline over range_reader_core: files, clocks, parquet and metadata live here and nowhere else."""
