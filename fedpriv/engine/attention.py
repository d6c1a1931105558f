"""Self-attention and transformer layers as lines: linear maps, and one core without parameters."""

from functools import partial
from math import sqrt

from torch import Tensor, nn

from fedpriv.engine.activations import GELU, RELU, activation
from fedpriv.engine.layers import dense, layer_norm
from fedpriv.engine.lines import Lines, Unknown
from fedpriv.engine.local import Local
from fedpriv.engine.rules import Rule, Sum


def attended(projected: Tensor, heads: int) -> Tensor:
    """(N, T, 3E) -> (N, T, E): each token's mean of the values, weighted by softmax(q kᵀ/√E)."""
    rows, tokens, width = projected.shape
    size = width // 3 // heads
    q, k, v = projected.view(rows, tokens, 3, heads, size).permute(2, 0, 3, 1, 4)
    weights = (q @ k.mT / sqrt(size)).softmax(-1)
    found: Tensor = (weights @ v).transpose(1, 2).reshape(rows, tokens, -1)
    return found


def attention(lines: Lines, slot: int, path: str, module: nn.MultiheadAttention) -> int:
    """Attention of a sequence (N, T, E) to itself."""
    if not module.batch_first:
        raise Unknown(f"MultiheadAttention '{path}' has its samples on the second axis")
    if module.in_proj_weight is None or module.bias_k is not None or module.add_zero_attn:
        raise Unknown(f"MultiheadAttention '{path}' has options without a rule")
    if module.training and module.dropout:
        raise Unknown(f"the dropout of '{path}' is on")
    slot = dense(lines, slot, path, "in_proj_weight", "in_proj_bias")
    slot = lines.add(Local(partial(attended, heads=module.num_heads)), [slot])
    return dense(lines, slot, f"{path}.out_proj")


def transformer_layer(lines: Lines, slot: int, path: str, layer: nn.TransformerEncoderLayer) -> int:
    """Attention and two linear layers, each with a shortcut and a LayerNorm before or behind it."""

    def norm(slot: int, name: str) -> int:
        return layer_norm(lines, slot, f"{path}.{name}", getattr(layer, name))

    def attend(slot: int) -> int:
        return attention(lines, slot, f"{path}.self_attn", layer.self_attn)

    def feed(slot: int) -> int:
        slot = dense(lines, slot, f"{path}.linear1")
        return dense(lines, lines.add(_bend(layer), [slot]), f"{path}.linear2")

    for work, name in ((attend, "norm1"), (feed, "norm2")):
        if layer.norm_first:
            slot = lines.add(Sum(), [slot, work(norm(slot, name))])
        else:
            slot = norm(lines.add(Sum(), [slot, work(slot)]), name)
    return slot


def _bend(layer: nn.TransformerEncoderLayer) -> Rule:
    chosen = layer.activation
    if isinstance(chosen, nn.Module):
        return activation(chosen) or Local(chosen.forward)
    rules = {nn.functional.relu: RELU, nn.functional.gelu: GELU}
    return rules.get(chosen) or Local(chosen)


def transformer(lines: Lines, slot: int, path: str, encoder: nn.TransformerEncoder) -> int:
    """Transformer layers one after the other."""
    for number, layer in enumerate(encoder.layers):
        if not isinstance(layer, nn.TransformerEncoderLayer):
            raise Unknown(f"{type(layer).__name__} '{path}.layers.{number}' has no rule")
        slot = transformer_layer(lines, slot, f"{path}.layers.{number}", layer)
    if isinstance(encoder.norm, nn.LayerNorm):
        return layer_norm(lines, slot, f"{path}.norm", encoder.norm)
    if encoder.norm is not None:
        raise Unknown(f"{type(encoder.norm).__name__} '{path}.norm' has no rule")
    return slot
