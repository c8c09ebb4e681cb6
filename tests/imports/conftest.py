from tests.cli.conftest import project, shell

__all__ = ["project", "shell"]
