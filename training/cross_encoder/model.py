"""The network of `pipeline.models.cross`, in PyTorch, begun with layers of all-MiniLM-L6-v2."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.models.bert import HIDDEN, Weights
from training.transformer import HIDDEN_FROM, Reading

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
