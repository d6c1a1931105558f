"""What protects a client: its terms, secrets, memory on disk, trusted bundles, masked sums."""
