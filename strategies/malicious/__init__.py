"""Servers that change the weights of the model they send.

Clients build the architecture themselves, so that weights are all a server can change.
"""

from fedpriv.strategies.malicious.wrapper import Malicious

__all__ = ["Malicious"]
