"""What answers: models, recorded answers, functions and commands."""
