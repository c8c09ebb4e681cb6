"""What is asked and how it is judged: the eval document, the dialects read and written as it, and their rules."""
