"""`python -m tests.bench`."""

from .table import main

if __name__ == "__main__":
    main()
