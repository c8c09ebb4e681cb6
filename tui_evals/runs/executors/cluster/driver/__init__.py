"""The side of a clustered run that plans and commits."""
