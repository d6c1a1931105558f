import torch.nn.functional as F
from torch import nn


class DigitNet(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 5)
        self.c2 = nn.Conv2d(width, 2 * width, 5)
        self.out = nn.Linear(2 * width * 16, 10)

    def forward(self, img):
        h = F.max_pool2d(F.relu(self.c1(img)), 2)
        h = F.max_pool2d(F.relu(self.c2(h)), 2)
        return F.log_softmax(self.out(h.flatten(1)), dim=1)
