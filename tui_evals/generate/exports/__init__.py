"""What other programs take of a generation; written, never sent."""
