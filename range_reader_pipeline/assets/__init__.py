"""The five materialized assets, one file each."""
