"""The client's own protection: terms, secrets, memory on disk, bundles, clipping, secure aggregation."""
