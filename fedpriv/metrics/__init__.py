"""What leaked, what was learned, and the trade-off between the two."""
