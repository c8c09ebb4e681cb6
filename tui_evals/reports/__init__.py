"""What is handed on: files made from what the store holds."""
