"""The three widgets everything is made of: lines, a field, and a bar."""
