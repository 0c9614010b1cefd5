"""The network of `pipeline.models.graph`, in PyTorch, begun with all-MiniLM-L6-v2."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.models.bert import LAYERS, Weights
from training.transformer import HIDDEN_FROM, Reading


class Encoder(Reading):
    """Texts -> unit vectors."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, range(LAYERS))

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """One of each line: the mean of its tokens, with length 1."""
        places = torch.arange(tokens.shape[1])
        there = places < lengths[:, None]
        with torch.autocast("cpu", torch.bfloat16):
            x = self.read(tokens, places)
            padding = ((~there)[:, None, None, :] * HIDDEN_FROM).to(x.dtype)
            for layer in self.layers:
                x = layer(x, padding)
        summed = (x.float() * there[..., None]).sum(1)
        return functional.normalize(summed, dim=-1)
