"""PyTorch networks of the encoder and the cross-encoder, initialized from all-MiniLM-L6-v2.

They have the structure of the graphs that `pipeline.encoders.minilm` and `pipeline.encoders.onnx_graph` build.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.encoders.cross_encoder import MEANS_PRODUCT_SCALE
from pipeline.encoders.minilm import EPSILON, HEAD_COUNT, HIDDEN_SIZE, LAYER_COUNT, Weights

# Added to the attention scores of masked tokens, so that the softmax gives them no weight.
MASKED_SCORE: Final = -10_000.0


class TransformerBase(nn.Module):
    """Embeddings and layers of both networks. `layers`: numbers of the MiniLM layers to initialize from.

    `precision`: type of the activations. 16 bits are faster on processors that compute with them, and slower on others.
    The embedding tables are not trained, so that the cross-encoder can use the embeddings in the file of the encoder.
    """

    word: Tensor
    position: Tensor
    token_type: Tensor

    def __init__(
        self, weights: Weights, layers: Iterable[int], precision: torch.dtype = torch.bfloat16
    ) -> None:
        super().__init__()
        self.precision = precision
        for name in ("word", "position", "token_type"):
            table = torch.tensor(weights[f"embeddings.{name}_embeddings.weight"])
            self.register_buffer(name, table, persistent=False)
        self.embedding_norm = create_layer_norm(weights, "embeddings.LayerNorm")
        self.layers = nn.ModuleList(TransformerLayer(weights, number) for number in layers)

    def embed_tokens(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Return the input of the first layer: the normalized sum of the embeddings of each token and its position."""
        return self.embedding_norm(self.word[tokens] + self.position[positions] + self.token_type[0]).to(
            self.precision
        )

    def autocast(self) -> torch.autocast:
        """Return the context manager that computes in the network's precision."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self.precision is torch.bfloat16)


class TransformerLayer(nn.Module):
    """One transformer layer, initialized with MiniLM's layer of this number."""

    def __init__(self, weights: Weights, number: int) -> None:
        super().__init__()
        name = f"encoder.layer.{number}"
        self.query, self.key, self.value = (
            create_linear(weights, f"{name}.attention.self.{part}") for part in ("query", "key", "value")
        )
        self.attention_output = create_linear(weights, f"{name}.attention.output.dense")
        self.attention_norm = create_layer_norm(weights, f"{name}.attention.output.LayerNorm")
        self.intermediate = create_linear(weights, f"{name}.intermediate.dense")
        self.output = create_linear(weights, f"{name}.output.dense")
        self.output_norm = create_layer_norm(weights, f"{name}.output.LayerNorm")

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the token states after the layer. `x` and the result have the shape (rows, tokens, HIDDEN_SIZE).

        `mask` is added to the attention scores: 0, or MASKED_SCORE where a token must not see another.
        """
        rows, tokens, _ = x.shape
        query, key, value = (
            projection(x).view(rows, tokens, HEAD_COUNT, -1).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query * (HIDDEN_SIZE / HEAD_COUNT) ** -0.5, key.transpose(-1, -2)) + mask
        attended = torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2).reshape(x.shape)
        x = self.attention_norm(x + self.attention_output(attended))
        # The tanh approximation is within 0.001 of the exact GELU, and faster.
        return self.output_norm(x + self.output(functional.gelu(self.intermediate(x), approximate="tanh")))


def create_linear(weights: Weights, name: str) -> nn.Linear:
    """Create a linear layer with the weights of that name."""
    matrix, bias = (torch.tensor(weights[f"{name}.{part}"]) for part in ("weight", "bias"))
    layer = nn.Linear(matrix.shape[1], matrix.shape[0])
    layer.weight.data, layer.bias.data = matrix, bias
    return layer


def create_layer_norm(weights: Weights, name: str) -> nn.LayerNorm:
    """Create a layer normalization with the weights of that name."""
    layer = nn.LayerNorm(HIDDEN_SIZE, EPSILON)
    layer.weight.data, layer.bias.data = (
        torch.tensor(weights[f"{name}.{part}"]) for part in ("weight", "bias")
    )
    return layer


# Numbers of the MiniLM layers that initialize the first layers, which query and text pass separately.
SEPARATE_LAYERS: Final = (0, 2)
# Numbers of the MiniLM layers that initialize the last layers, which query and text pass together.
JOINT_LAYERS: Final = (5,)
# Initial weights of the three similarities of query and text (see `CrossEncoder.forward`), close to their final values.
INITIAL_SIMILARITY_WEIGHTS: Final = (6.0, 6.0, 6.0)
# Initial weights of the lane scores, the scores of the retrievers (BM25, cosine), close to their final values.
INITIAL_LANE_WEIGHTS: Final = (0.0, 7.0)


class CrossEncoder(TransformerBase):
    """Cross-encoder: a relevance score for each (query, text) pair.

    `side` holds the segment embeddings of query and text, `importance` computes the importance of a query token, and
    `scale` weighs the three similarities; the bundled file has these names. `lane_weights` weighs the retrievers'
    scores in training, so that the network learns what these scores miss.
    """

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, (*SEPARATE_LAYERS, *JOINT_LAYERS))
        self.side = nn.Parameter(torch.zeros(2, HIDDEN_SIZE))
        self.importance = create_zero_linear(1)
        self.joint = nn.Linear(2 * HIDDEN_SIZE, HIDDEN_SIZE)
        self.out = create_zero_linear(1)
        self.scale = nn.Parameter(torch.tensor(INITIAL_SIMILARITY_WEIGHTS))
        self.lane_weights = nn.Parameter(torch.tensor(INITIAL_LANE_WEIGHTS))

    def forward(self, tokens: Tensor, segment_ids: Tensor, lengths: Tensor) -> Tensor:
        """Return a score for each row. `segment_ids`: 0 for tokens of the query, 1 for tokens of the text."""
        positions = torch.arange(tokens.shape[1])
        is_token = positions < lengths[:, None]
        is_query, is_text = is_token & (segment_ids == 0), is_token & (segment_ids == 1)
        # Positions of the text start at 0 again.
        positions = (positions - segment_ids * is_query.sum(1, keepdim=True)).clamp(min=0)
        with self.autocast():
            x = self.embed_tokens(tokens, positions)
            padding = ((~is_token)[:, None, None, :] * MASKED_SCORE).to(x.dtype)
            other_segment = ((segment_ids[:, :, None] != segment_ids[:, None, :])[:, None] * MASKED_SCORE).to(
                x.dtype
            )
            for layer in self.layers[: len(SEPARATE_LAYERS)]:
                x = layer(x, padding + other_segment)
            similarities = [self.compute_token_similarity(x, is_query, is_text)]
            x = x + self.side[segment_ids].to(x.dtype)
            for layer in self.layers[len(SEPARATE_LAYERS) :]:
                x = layer(x, padding)
            means = [
                (x * is_segment[..., None]).sum(1) / is_segment.sum(1, keepdim=True)
                for is_segment in (is_query, is_text)
            ]
            similarities += [
                self.compute_token_similarity(x, is_query, is_text),
                functional.cosine_similarity(*(mean.float() for mean in means)),
            ]
            hidden = torch.tanh(
                self.joint(torch.cat([means[0] * means[1] * MEANS_PRODUCT_SCALE, means[0] + means[1]], 1))
            )
        return (torch.stack(similarities, 1) * self.scale).sum(1) + self.out(hidden.float())[:, 0]

    def compute_token_similarity(self, x: Tensor, is_query: Tensor, is_text: Tensor) -> Tensor:
        """Return the weighted mean, over the query's tokens, of the cosine to the nearest text token.

        `is_query` and `is_text`: for each token, whether it belongs to that segment.
        """
        query_states = x[:, : int(is_query.sum(1).max())]
        is_query = is_query[:, : query_states.shape[1]]
        units = [functional.normalize(states.float(), dim=-1).to(x.dtype) for states in (query_states, x)]
        products = torch.matmul(units[0], units[1].transpose(1, 2)).float()
        nearest = products.masked_fill(~is_text[:, None, :], -1).amax(-1)
        token_weights = torch.sigmoid(self.importance(query_states.float())[..., 0]) * is_query
        return (nearest * token_weights).sum(1) / token_weights.sum(1)


def create_zero_linear(outputs: int) -> nn.Linear:
    """Create a linear layer from HIDDEN_SIZE inputs, with zeros as weights."""
    layer = nn.Linear(HIDDEN_SIZE, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Encoder(TransformerBase):
    """Sentence encoder: a unit vector for each text."""

    def __init__(self, weights: Weights, precision: torch.dtype = torch.bfloat16) -> None:
        super().__init__(weights, range(LAYER_COUNT), precision)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the normalized mean of each row's token states."""
        positions = torch.arange(tokens.shape[1])
        is_token = positions < lengths[:, None]
        with self.autocast():
            x = self.embed_tokens(tokens, positions)
            padding = ((~is_token)[:, None, None, :] * MASKED_SCORE).to(x.dtype)
            for layer in self.layers:
                x = layer(x, padding)
        sums = (x.float() * is_token[..., None]).sum(1)
        return functional.normalize(sums, dim=-1)
