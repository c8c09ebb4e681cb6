"""The eval document: load, edit, resolve, validate and save it, and read other formats as one."""
