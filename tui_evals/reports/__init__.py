"""Reports and exports: files created from the store."""
