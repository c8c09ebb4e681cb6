"""What the page of a report says: plain values for its templates, which stand beside these modules."""
