"""The foreign dialects: each module reads one into items and, where it can, writes items as it."""
