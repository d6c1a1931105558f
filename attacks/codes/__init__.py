"""Attacks on shared codes: decoders, masks, attributes."""
