"""What turns cells into records: in this process, or on a cluster."""
