"""Servers that change the model they send; clients build the architecture, so weights are all there
is.
"""

from fedpriv.strategies.malicious.wrapper import Malicious

__all__ = ["Malicious"]
