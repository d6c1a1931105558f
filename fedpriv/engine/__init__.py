"""Second-order passes without an autograd graph, for the layers that our networks are made of."""
