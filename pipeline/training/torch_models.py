"""PyTorch networks of the encoder and the cross-encoder, initialized from all-MiniLM-L6-v2.

They match the graphs built by `pipeline.encoders.cross_encoder_graph` and `pipeline.encoders.quantization`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.encoders.minilm_numpy import EPSILON, HEAD_COUNT, HIDDEN_SIZE, LAYER_COUNT, Weights

# Added to the attention scores of masked tokens.
MASKED_SCORE: Final = -10_000.0


class TransformerBase(nn.Module):
    """Embeddings and layers of both networks.

    The embeddings stay frozen, so that both models share them in the bundled files.
    """

    word: Tensor
    position: Tensor
    token_type: Tensor

    def __init__(self, weights: Weights, layers: Iterable[int]) -> None:
        super().__init__()
        for name in ("word", "position", "token_type"):
            table = torch.tensor(weights[f"embeddings.{name}_embeddings.weight"])
            self.register_buffer(name, table, persistent=False)
        self.placed = layer_norm(weights, "embeddings.LayerNorm")
        self.layers = nn.ModuleList(TransformerLayer(weights, number) for number in layers)

    def embed_tokens(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Return the embedding of each token and position, before any layer."""
        return self.placed(self.word[tokens] + self.position[places] + self.token_type[0]).bfloat16()


class TransformerLayer(nn.Module):
    """One transformer layer."""

    def __init__(self, weights: Weights, number: int) -> None:
        super().__init__()
        name = f"encoder.layer.{number}"
        self.query, self.key, self.value = (
            linear_layer(weights, f"{name}.attention.self.{part}") for part in ("query", "key", "value")
        )
        self.attended = linear_layer(weights, f"{name}.attention.output.dense")
        self.first = layer_norm(weights, f"{name}.attention.output.LayerNorm")
        self.inner = linear_layer(weights, f"{name}.intermediate.dense")
        self.outer = linear_layer(weights, f"{name}.output.dense")
        self.second = layer_norm(weights, f"{name}.output.LayerNorm")

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Return the token states after the layer; `hidden` is the additive attention mask."""
        lines, tokens, _ = x.shape
        query, key, value = (
            part(x).view(lines, tokens, HEAD_COUNT, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query * (HIDDEN_SIZE / HEAD_COUNT) ** -0.5, key.transpose(-1, -2)) + hidden
        mixed = torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2).reshape(x.shape)
        x = self.first(x + self.attended(mixed))
        # The tanh approximation is within 0.001 of the exact GELU, and faster.
        return self.second(x + self.outer(functional.gelu(self.inner(x), approximate="tanh")))


def linear_layer(weights: Weights, name: str) -> nn.Linear:
    """Return a linear layer with the weights of that name."""
    matrix, bias = (torch.tensor(weights[f"{name}.{part}"]) for part in ("weight", "bias"))
    layer = nn.Linear(matrix.shape[1], matrix.shape[0])
    layer.weight.data, layer.bias.data = matrix, bias
    return layer


def layer_norm(weights: Weights, name: str) -> nn.LayerNorm:
    """Return a layer normalization with the weights of that name."""
    layer = nn.LayerNorm(HIDDEN_SIZE, EPSILON)
    layer.weight.data, layer.bias.data = (
        torch.tensor(weights[f"{name}.{part}"]) for part in ("weight", "bias")
    )
    return layer


def split_by_length(lengths: Tensor, part_size: int) -> Sequence[Tensor]:
    """Split line numbers, sorted by length, into parts of equal size, so that there is little padding."""
    return torch.split(torch.argsort(lengths), part_size)


# MiniLM layers that read query and text separately, and those that read both together.
SEPARATE_LAYERS: Final = (0, 2)
JOINT_LAYERS: Final = (5,)
# Initial weights of the three similarities and of the lane scores, close to their final values.
INITIAL_SIMILARITY_WEIGHTS: Final = (6.0, 6.0, 6.0)
INITIAL_LANE_WEIGHTS: Final = (0.0, 7.0)


class CrossEncoder(TransformerBase):
    """Cross-encoder: a relevance score for each (query, text) pair.

    `known` weighs the lane scores, so that the text score learns what the lanes miss.
    """

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, (*SEPARATE_LAYERS, *JOINT_LAYERS))
        self.side = nn.Parameter(torch.zeros(2, HIDDEN_SIZE))
        self.telling = zero_linear(1)
        self.joint = nn.Linear(2 * HIDDEN_SIZE, HIDDEN_SIZE)
        self.out = zero_linear(1)
        self.scale = nn.Parameter(torch.tensor(INITIAL_SIMILARITY_WEIGHTS))
        self.known = nn.Parameter(torch.tensor(INITIAL_LANE_WEIGHTS))

    def forward(self, tokens: Tensor, sides: Tensor, lengths: Tensor) -> Tensor:
        """Return a score for each line."""
        places = torch.arange(tokens.shape[1])
        is_token = places < lengths[:, None]
        question, text = is_token & (sides == 0), is_token & (sides == 1)
        places = (places - sides * question.sum(1, keepdim=True)).clamp(min=0)
        with torch.autocast("cpu", torch.bfloat16):
            x = self.embed_tokens(tokens, places)
            padding = ((~is_token)[:, None, None, :] * MASKED_SCORE).to(x.dtype)
            other = ((sides[:, :, None] != sides[:, None, :])[:, None] * MASKED_SCORE).to(x.dtype)
            for layer in self.layers[: len(SEPARATE_LAYERS)]:
                x = layer(x, padding + other)
            similarities = [self.token_similarity(x, question, text)]
            x = x + self.side[sides].to(x.dtype)
            for layer in self.layers[len(SEPARATE_LAYERS) :]:
                x = layer(x, padding)
            means = [(x * side[..., None]).sum(1) / side.sum(1, keepdim=True) for side in (question, text)]
            similarities += [
                self.token_similarity(x, question, text),
                functional.cosine_similarity(*(m.float() for m in means)),
            ]
            hidden = torch.tanh(self.joint(torch.cat([means[0] * means[1] * 10, means[0] + means[1]], 1)))
        return (torch.stack(similarities, 1) * self.scale).sum(1) + self.out(hidden.float())[:, 0]

    def token_similarity(self, x: Tensor, question: Tensor, text: Tensor) -> Tensor:
        """Return the weighted mean, over the query's tokens, of the cosine to the nearest text token."""
        query_states = x[:, : int(question.sum(1).max())]
        question = question[:, : query_states.shape[1]]
        units = [functional.normalize(part.float(), dim=-1).to(x.dtype) for part in (query_states, x)]
        products = torch.matmul(units[0], units[1].transpose(1, 2)).float()
        nearest = products.masked_fill(~text[:, None, :], -1).amax(-1)
        token_weights = torch.sigmoid(self.telling(query_states.float())[..., 0]) * question
        return (nearest * token_weights).sum(1) / token_weights.sum(1)


def zero_linear(outputs: int) -> nn.Linear:
    """Return a linear layer of zeros."""
    made = nn.Linear(HIDDEN_SIZE, outputs)
    nn.init.zeros_(made.weight)
    nn.init.zeros_(made.bias)
    return made


class Encoder(TransformerBase):
    """Sentence encoder: a unit vector for each text."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, range(LAYER_COUNT))

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the normalized mean of each line's token states."""
        places = torch.arange(tokens.shape[1])
        is_token = places < lengths[:, None]
        with torch.autocast("cpu", torch.bfloat16):
            x = self.embed_tokens(tokens, places)
            padding = ((~is_token)[:, None, None, :] * MASKED_SCORE).to(x.dtype)
            for layer in self.layers:
                x = layer(x, padding)
        sums = (x.float() * is_token[..., None]).sum(1)
        return functional.normalize(sums, dim=-1)
