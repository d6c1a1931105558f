"""Networks; each takes channels, image size and classes."""
