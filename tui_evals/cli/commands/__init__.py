"""What every command takes and says of itself; the work is imported when a command runs, so help stays quick."""
