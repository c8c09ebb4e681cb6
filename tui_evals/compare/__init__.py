"""What differs: between two texts, and between two runs."""
