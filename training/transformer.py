"""The encoder's layers in PyTorch, begun with its weights; what both networks are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.models.bert import EPSILON, HEADS, HIDDEN, Weights

# Taken from what no token should look at.
HIDDEN_FROM: Final = -10_000.0


class Reading(nn.Module):
    """What both networks begin with. How words and positions are read stays as the encoder that came has it.

    So both can share it in the file that ships.
    """

    word: Tensor
    position: Tensor
    token_type: Tensor

    def __init__(self, weights: Weights, layers: Iterable[int]) -> None:
        super().__init__()
        for name in ("word", "position", "token_type"):
            table = torch.tensor(weights[f"embeddings.{name}_embeddings.weight"])
            self.register_buffer(name, table, persistent=False)
        self.placed = norm(weights, "embeddings.LayerNorm")
        self.layers = nn.ModuleList(Layer(weights, number) for number in layers)

    def read(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Each token at its place, before any layer."""
        return self.placed(self.word[tokens] + self.position[places] + self.token_type[0]).bfloat16()


class Layer(nn.Module):
    """One transformer layer."""

    def __init__(self, weights: Weights, number: int) -> None:
        super().__init__()
        name = f"encoder.layer.{number}"
        self.query, self.key, self.value = (
            dense(weights, f"{name}.attention.self.{part}") for part in ("query", "key", "value")
        )
        self.attended = dense(weights, f"{name}.attention.output.dense")
        self.first = norm(weights, f"{name}.attention.output.LayerNorm")
        self.inner = dense(weights, f"{name}.intermediate.dense")
        self.outer = dense(weights, f"{name}.output.dense")
        self.second = norm(weights, f"{name}.output.LayerNorm")

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Every token, beside those that are not hidden from it."""
        lines, tokens, _ = x.shape
        query, key, value = (
            part(x).view(lines, tokens, HEADS, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query * (HIDDEN / HEADS) ** -0.5, key.transpose(-1, -2)) + hidden
        mixed = torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2).reshape(x.shape)
        x = self.first(x + self.attended(mixed))
        # Within 0.001 of what the graph computes, and faster to learn with.
        return self.second(x + self.outer(functional.gelu(self.inner(x), approximate="tanh")))


def dense(weights: Weights, name: str) -> nn.Linear:
    """A matrix product of the encoder."""
    matrix, bias = (torch.tensor(weights[f"{name}.{part}"]) for part in ("weight", "bias"))
    made = nn.Linear(matrix.shape[1], matrix.shape[0])
    made.weight.data, made.bias.data = matrix, bias
    return made


def norm(weights: Weights, name: str) -> nn.LayerNorm:
    """A normalisation of the encoder."""
    made = nn.LayerNorm(HIDDEN, EPSILON)
    made.weight.data, made.bias.data = (
        torch.tensor(weights[f"{name}.{part}"]) for part in ("weight", "bias")
    )
    return made


def sorted_in_parts(lengths: Tensor, most: int) -> Sequence[Tensor]:
    """Numbers of lines by length, so many at a time: little of a part is padding."""
    return torch.split(torch.argsort(lengths), most)
