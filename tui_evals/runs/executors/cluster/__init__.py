"""Executes one run in many worker processes with Dask, into one store."""
