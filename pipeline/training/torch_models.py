"""The encoder's layers in PyTorch, begun with its weights; what both networks are made of.

The network of `pipeline.encoders.cross_encoder_graph`, in PyTorch, begun with layers of all-MiniLM-L6-v2.

The network of `pipeline.encoders.quantization`, in PyTorch, begun with all-MiniLM-L6-v2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.encoders.minilm_numpy import EPSILON, HEADS, HIDDEN, LAYERS, Weights

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


# Layers of the encoder that either side begins with, and those that read both.
APART: Final = (0, 2)
ACROSS: Final = (5,)
# What the three kinds of nearness are multiplied by to begin with, and what the lanes know: about as it ends.
NEARNESS: Final = (6.0, 6.0, 6.0)
KNOWN: Final = (0.0, 7.0)


class Cross(Reading):
    """Pairs -> how well each fits.

    `known` weighs what the lanes know: a score that is learnt beside it says what they do not.
    """

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, (*APART, *ACROSS))
        self.side = nn.Parameter(torch.zeros(2, HIDDEN))
        self.telling = zeros(1)
        self.joint = nn.Linear(2 * HIDDEN, HIDDEN)
        self.out = zeros(1)
        self.scale = nn.Parameter(torch.tensor(NEARNESS))
        self.known = nn.Parameter(torch.tensor(KNOWN))

    def forward(self, tokens: Tensor, sides: Tensor, lengths: Tensor) -> Tensor:
        """A score for each line."""
        places = torch.arange(tokens.shape[1])
        there = places < lengths[:, None]
        question, text = there & (sides == 0), there & (sides == 1)
        places = (places - sides * question.sum(1, keepdim=True)).clamp(min=0)
        with torch.autocast("cpu", torch.bfloat16):
            x = self.read(tokens, places)
            padding = ((~there)[:, None, None, :] * HIDDEN_FROM).to(x.dtype)
            other = ((sides[:, :, None] != sides[:, None, :])[:, None] * HIDDEN_FROM).to(x.dtype)
            for layer in self.layers[: len(APART)]:
                x = layer(x, padding + other)
            near = [self.near(x, question, text)]
            x = x + self.side[sides].to(x.dtype)
            for layer in self.layers[len(APART) :]:
                x = layer(x, padding)
            means = [(x * side[..., None]).sum(1) / side.sum(1, keepdim=True) for side in (question, text)]
            near += [self.near(x, question, text), functional.cosine_similarity(*(m.float() for m in means))]
            hidden = torch.tanh(self.joint(torch.cat([means[0] * means[1] * 10, means[0] + means[1]], 1)))
        return (torch.stack(near, 1) * self.scale).sum(1) + self.out(hidden.float())[:, 0]

    def near(self, x: Tensor, question: Tensor, text: Tensor) -> Tensor:
        """How near each of a question's tokens comes to one of the text's: a mean, weighed by the tokens."""
        asked = x[:, : int(question.sum(1).max())]
        question = question[:, : asked.shape[1]]
        units = [functional.normalize(part.float(), dim=-1).to(x.dtype) for part in (asked, x)]
        products = torch.matmul(units[0], units[1].transpose(1, 2)).float()
        nearest = products.masked_fill(~text[:, None, :], -1).amax(-1)
        worth = torch.sigmoid(self.telling(asked.float())[..., 0]) * question
        return (nearest * worth).sum(1) / worth.sum(1)


def zeros(outputs: int) -> nn.Linear:
    """A product that says nothing yet."""
    made = nn.Linear(HIDDEN, outputs)
    nn.init.zeros_(made.weight)
    nn.init.zeros_(made.bias)
    return made


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
