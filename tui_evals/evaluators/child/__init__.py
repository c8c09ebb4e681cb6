"""What runs inside the sandbox: a package of its own that imports the standard library only."""
