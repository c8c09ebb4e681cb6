"""The side of a clustered run that asks and judges."""
