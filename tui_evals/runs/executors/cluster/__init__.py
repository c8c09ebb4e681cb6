"""One run over many worker processes, on Dask, into one store."""
