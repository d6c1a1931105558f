"""Does the claimed ε hold? A mechanism as a black box, a run with canaries, a claim on paper."""
