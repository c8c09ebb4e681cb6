"""How results prove where they come from: canonical bytes, a chain of signed records, and keys. No database here."""
