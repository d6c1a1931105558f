"""The windows of a convolution as columns of a matrix, and back: copies of strided views."""

import torch
from torch import Tensor
from torch.nn.functional import fold, pad

Pair = tuple[int, int]


def unfolded(a: Tensor, window: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    """(N, C, H, W) -> (N, C·window, L): one copy, several times faster than torch's unfold."""
    if padding != (0, 0):
        a = pad(a, (padding[1], padding[1], padding[0], padding[0]))
    a = a.contiguous()
    rows, channels, height, width = a.shape
    out = tuple(
        (size - dilation[i] * (window[i] - 1) - 1) // stride[i] + 1
        for i, size in enumerate((height, width))
    )
    steps = (channels * height * width, height * width, dilation[0] * width, dilation[1])
    view = a.as_strided(
        (rows, channels, *window, *out), (*steps, stride[0] * width, stride[1]), a.storage_offset()
    )
    return view.reshape(rows, channels * window[0] * window[1], out[0] * out[1])


def folded_back(
    columns: Tensor, size: Pair, window: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Tensor:
    """The transpose: (N, C·window, L) -> (N, C, H, W), overlapping windows added up."""
    rows = columns.shape[0]
    if rows == 1:
        return fold(columns, size, window, dilation, padding, stride)
    whole = (size[0] + 2 * padding[0], size[1] + 2 * padding[1])
    out = [(whole[i] - dilation[i] * (window[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    parts = columns.view(rows, -1, *window, *out)
    found = columns.new_zeros(rows, parts.shape[1], *whole)
    for i in range(window[0]):
        for j in range(window[1]):
            top, left = i * dilation[0], j * dilation[1]
            down = slice(top, top + (out[0] - 1) * stride[0] + 1, stride[0])
            across = slice(left, left + (out[1] - 1) * stride[1] + 1, stride[1])
            found[:, :, down, across].add_(parts[:, :, i, j])
    top, left = padding
    return found[:, :, top : top + size[0], left : left + size[1]]


def pulled_back(own: Tensor, d: Tensor, size: Pair, window: Pair, padding: Pair) -> Tensor:
    """`folded_back(own · d)` for stride 1: own (N, C·window, K), d (N, K, L) -> (N, C, H, W).

    Each row of the window adds its product to shifted rows, so that only the columns of one row
    are ever written and folded: a fifth of them for windows of 5 × 5.
    """
    rows, deep = d.shape[0], d.shape[1]
    height, width = (size[i] + 2 * padding[i] for i in range(2))
    out = (height - window[0] + 1, width - window[1] + 1)
    margin = window[0] - 1
    tall = d.new_zeros(rows, deep, (out[0] + 2 * margin) * out[1])
    tall[:, :, margin * out[1] : (margin + out[0]) * out[1]] = d
    kernels = own.view(rows, -1, *window, deep).permute(2, 0, 1, 3, 4)
    kernels = kernels.reshape(window[0], rows, -1, deep)
    columns = d.new_empty(())
    for i in range(window[0]):
        at = (margin - i) * out[1]
        shifted = tall[:, :, at : at + height * out[1]]
        columns = columns.baddbmm_(kernels[i], shifted) if i else kernels[i].bmm(shifted)
    parts = columns.view(rows, -1, window[1], height, out[1])
    found = d.new_zeros(rows, parts.shape[1], height, width)
    for j in range(window[1]):
        found[..., j : j + out[1]].add_(parts[:, :, j])
    top, left = padding
    return found[:, :, top : top + size[0], left : left + size[1]]


def by_victim(values: Tensor, victims: int) -> Tensor:
    """(V·B, …) -> (V, B, …)."""
    return values.view(victims, -1, *values.shape[1:])


def kernel_gradients(d: Tensor, columns: Tensor, victims: int) -> Tensor:
    """(V, out, C·window): d (V·B, out, L) times the columns, summed over each victim's samples."""
    if d.shape[0] == victims:
        return torch.bmm(d, columns.mT)
    return torch.matmul(by_victim(d, victims), by_victim(columns, victims).mT).sum(1)


def times_own(kernel: Tensor, columns: Tensor) -> Tensor:
    """(V, out, C·window) times the columns (V·B, C·window, L) of each victim: (V·B, out, L)."""
    if columns.shape[0] == kernel.shape[0]:
        return torch.bmm(kernel, columns)
    return torch.matmul(kernel.unsqueeze(1), by_victim(columns, kernel.shape[0])).flatten(0, 1)
