"""The network of `pipeline.models.graph`, in PyTorch, begun with all-MiniLM-L6-v2."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.models.bert import LAYERS, Weights
from training.transformer import HIDDEN_FROM, Layer, norm


class Encoder(nn.Module):
    """Texts -> unit vectors. What is read of words and positions stays as it is: the cross-encoder reads it too."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        for name in ("word", "position", "token_type"):
            table = torch.tensor(weights[f"embeddings.{name}_embeddings.weight"])
            self.register_buffer(name, table, persistent=False)
        self.placed = norm(weights, "embeddings.LayerNorm")
        self.layers = nn.ModuleList(Layer(weights, number) for number in range(LAYERS))

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """One of each line: the mean of its tokens, with length 1."""
        places = torch.arange(tokens.shape[1])
        there = places < lengths[:, None]
        with torch.autocast("cpu", torch.bfloat16):
            x = self.placed(self.word[tokens] + self.position[places] + self.token_type[0]).bfloat16()
            padding = ((~there)[:, None, None, :] * HIDDEN_FROM).to(x.dtype)
            for layer in self.layers:
                x = layer(x, padding)
        summed = (x.float() * there[..., None]).sum(1)
        return functional.normalize(summed, dim=-1)
