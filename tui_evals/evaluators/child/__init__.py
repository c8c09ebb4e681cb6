"""The code that runs inside the sandbox: a package that imports only the standard library."""
