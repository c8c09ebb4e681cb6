"""What runs in the Python where a library is installed: the standard library and that library, nothing of ours."""
