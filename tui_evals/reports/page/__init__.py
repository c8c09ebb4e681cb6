"""What the page of a report says: plain values for its templates, which are next to these modules."""
