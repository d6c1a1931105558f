"""How codes are made and read: encoders, releases, decoders, adversarial games, perturbations."""
