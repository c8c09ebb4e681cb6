"""The code that runs in a library's Python: it imports the standard library and that library, nothing of ours."""
