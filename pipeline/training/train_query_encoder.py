"""Training of the query encoder: it learns to give a question a vector near the changes that answer it.

python -m pipeline.training.train_query_encoder CHANGES OUT REPOSITORY... [--questions FILE] [--epochs N] [--rate R]
    [--seed N]

The query encoder starts as a copy of the bundled encoder. Only this copy is trained: the changes keep the vectors that
an index has, so that an index stays valid. A change is the diff of one file in one commit.

FILE has the questions, each with the commit that answers it (default: `questions.tsv` in this folder). CHANGES is the
directory of the encoded changes: a file for each repository, with the changes of the commits that answer a question and
of a sample of other commits. An existing file is reused. OUT is the file of the trained network, which is written
after each epoch.

The loss of a question is the cross-entropy of choosing a change of its commit among all changes of the file. The score
of a change is the weighted sum of three cosines, which are also features of the reranker.
"""

from __future__ import annotations

import argparse
import logging
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.encoders.base import OnnxEncoder, load_tokenizer
from pipeline.encoders.onnx_graph import read_encoder_weights
from pipeline.file_classification import FileRole, classify_role
from pipeline.git.repository import open_repository
from pipeline.hunks import Hunk, extract_hunks
from pipeline.ignore import IgnoreRules
from pipeline.training.commit_sampling import build_hunk_text, get_repository_name, sample_commits
from pipeline.training.list_training import QUERIES_PER_BATCH, PaddedTokens
from pipeline.training.torch_models import Encoder
from stores.vectors import QUERY_MEAN_SHARE, fit_whitening

QUESTIONS_FILE: Final = Path(__file__).with_name("questions.tsv")
EPOCHS: Final = 3
LEARNING_RATE: Final = 3e-5
WARMUP_STEPS: Final = 50
# Smallest share of the maximum learning rate, so that the last steps still change the weights.
MIN_RATE_SHARE: Final = 0.02
MAX_GRADIENT_NORM: Final = 1.0
# Steps between two lines of the log.
LOG_EVERY: Final = 50
# Maximum number of sampled commits of a repository that answer no question.
OTHER_COMMITS: Final = 330
# Maximum number of changes of a commit, source files first.
MAX_CHANGES: Final = 4
# Weights of the cosines of a question with a change, with the whitened vector of the change, and with the message of
# its commit. They are three times former weights of the reranker, so that a softmax over hundreds of changes is sharp.
COSINE_WEIGHTS: Final = (8.3, 11.2, 6.0)

Floats = npt.NDArray[np.float32]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Question:
    """Question, and the sha of the commit that answers it."""

    text: str
    commit: str


def read_questions(file: Path) -> list[Question]:
    """Read a file with tab-separated columns: sha, a question, and the same question in other words."""
    rows = pl.read_csv(file, separator="\t", quote_char=None).rows()
    return [Question(text, sha) for sha, *texts in rows for text in texts]


@dataclass(frozen=True, slots=True, eq=False)
class EncodedChanges:
    """Encoded changes of one repository.

    - `shas`: all commits. `messages`: unit vector of each commit's message.
    - `vectors`: unit vector of each change. `whitened`: whitened unit vector of each change.
    - `commits`: index in `shas` of each change's commit.
    - `mean` and `axes`: the whitening transform (see `stores.vectors`).
    """

    shas: Sequence[str]
    messages: Tensor
    vectors: Tensor
    whitened: Tensor
    commits: Tensor
    mean: Tensor
    axes: Tensor

    @classmethod
    def read(cls, file: Path) -> EncodedChanges:
        """Read a file written by `encode_changes`."""
        with np.load(file) as arrays:
            rows = arrays["vectors"].astype(np.float32)
            whitening = fit_whitening(rows)
            vectors, mean, axes = (
                torch.tensor(array, dtype=torch.float32) for array in (rows, whitening.mean, whitening.axes)
            )
            return cls(
                arrays["shas"].tolist(),
                functional.normalize(torch.tensor(arrays["messages"].astype(np.float32)), dim=-1),
                functional.normalize(vectors, dim=-1),
                functional.normalize((vectors - mean) @ axes, dim=-1),
                torch.tensor(arrays["commits"]),
                mean,
                axes,
            )

    def score(self, queries: Tensor) -> Tensor:
        """Return the score of each change (columns) for each query (rows)."""
        whitened_queries = functional.normalize((queries - QUERY_MEAN_SHARE * self.mean) @ self.axes, dim=-1)
        cosines = (
            queries @ self.vectors.T,
            whitened_queries @ self.whitened.T,
            (queries @ self.messages.T)[:, self.commits],
        )
        return sum(
            (weight * cosine for weight, cosine in zip(COSINE_WEIGHTS, cosines, strict=True)), torch.zeros(())
        )

    def compute_loss(self, queries: Tensor, answers: Tensor) -> Tensor:
        """Return the mean cross-entropy of choosing a change of the right commit.

        `answers`: for each query, the index in `shas` of the right commit.
        """
        scores = self.score(queries)
        is_answer = self.commits == answers[:, None]
        answer_scores = scores.masked_fill(~is_answer, -torch.inf)
        return (scores.logsumexp(1) - answer_scores.logsumexp(1)).mean()


def encode_changes(path: Path, answer_shas: frozenset[str], file: Path, seed: int) -> None:
    """Encode the changes of the commits that answer a question and of a sample of other commits; write the file."""
    repository, encoder = open_repository(path), OnnxEncoder()
    rules = IgnoreRules.from_repository(repository)
    head = repository.read_head()
    reachable = repository.walk(head) if head else []
    samples = (sample for sample in sample_commits(path, seed) if sample.commit.sha not in answer_shas)
    hunks_by_commit: dict[str, Sequence[Hunk]] = {
        sha: extract_hunks(repository, sha, rules.is_ignored).hunks for sha in reachable if sha in answer_shas
    }
    hunks_by_commit |= {sample.commit.sha: sample.hunks for sample in islice(samples, OTHER_COMMITS)}
    commits = [
        (sha, repository.read_commit(sha).message, changes)
        for sha, hunks in hunks_by_commit.items()
        if (changes := select_changes(hunks))
    ]
    texts = [build_hunk_text(hunk, message) for _, message, hunks in commits for hunk in hunks]
    with ThreadPoolExecutor() as pool:
        vectors, messages = (
            np.concatenate(list(pool.map(lambda text: encoder.encode([text]), group)))
            for group in (texts, [message for _, message, _ in commits])
        )
    np.savez(
        file,
        shas=np.array([sha for sha, _, _ in commits]),
        vectors=vectors.astype(np.float16),
        messages=messages.astype(np.float16),
        commits=np.repeat(np.arange(len(commits)), [len(hunks) for _, _, hunks in commits]),
    )


def select_changes(hunks: Iterable[Hunk]) -> list[Hunk]:
    """Return at most MAX_CHANGES hunks that have text: source files first, then tests."""
    order: Mapping[FileRole, int] = {"source": 0, "tests": 1}
    text_hunks = (hunk for hunk in hunks if hunk.added_text or hunk.removed_text)
    return sorted(text_hunks, key=lambda hunk: order.get(classify_role(hunk.file_path), 2))[:MAX_CHANGES]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Questions about one repository, with the index of the commit that answers each."""

    changes: EncodedChanges
    questions: Sequence[Question]
    answers: Tensor


def create_batches(
    repositories: Sequence[EncodedChanges], questions: Sequence[Question], generator: random.Random
) -> list[Batch]:
    """Return the questions about these repositories in batches of at most QUERIES_PER_BATCH, in random order."""
    batches = []
    for changes in repositories:
        indices = {sha: index for index, sha in enumerate(changes.shas)}
        own_questions = [question for question in questions if question.commit in indices]
        generator.shuffle(own_questions)
        for start in range(0, len(own_questions), QUERIES_PER_BATCH):
            chunk = own_questions[start : start + QUERIES_PER_BATCH]
            answers = torch.tensor([indices[question.commit] for question in chunk])
            batches.append(Batch(changes, chunk, answers))
    generator.shuffle(batches)
    return batches


def train(
    encoder: Encoder,
    repositories: Sequence[EncodedChanges],
    questions: Sequence[Question],
    options: argparse.Namespace,
) -> Iterator[float]:
    """Train the encoder, and yield the mean loss of each epoch."""
    tokenizer, generator = load_tokenizer(), random.Random(options.seed)  # noqa: S311 - a repeatable order
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=options.rate, weight_decay=0.0)
    total_steps = options.epochs * len(create_batches(repositories, questions, generator))
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1, (step + 1) / WARMUP_STEPS) * max(MIN_RATE_SHARE, 1 - step / total_steps),
    )
    for _ in range(options.epochs):
        losses = []
        for batch in create_batches(repositories, questions, generator):
            padded = PaddedTokens.from_rows(
                [tokenizer.encode(question.text).ids for question in batch.questions]
            )
            queries = encoder(torch.from_numpy(padded.tokens), torch.from_numpy(padded.lengths))
            loss = batch.changes.compute_loss(queries, batch.answers)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(encoder.parameters(), MAX_GRADIENT_NORM)
            optimizer.step()
            scheduler.step()
            losses.append(float(loss.detach()))
            if len(losses) % LOG_EVERY == 0:
                logger.info("step %d: loss %.3f", len(losses), np.mean(losses[-LOG_EVERY:]))
        yield float(np.mean(losses))


def main() -> None:
    """Run the command line."""
    parser = _build_parser()
    options = parser.parse_args()
    options.changes.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(options.seed)
    questions = read_questions(options.questions)
    answer_shas = frozenset(question.commit for question in questions)
    repositories = []
    for path in options.repositories:
        file = options.changes / f"{get_repository_name(path)}.npz"
        if not file.exists():
            encode_changes(path, answer_shas, file, options.seed)
        repositories.append(EncodedChanges.read(file))
    known_commits = {sha for changes in repositories for sha in changes.shas}
    count = sum(question.commit in known_commits for question in questions)
    logger.info("%d of %d questions are about commits of these repositories", count, len(questions))
    if not count:
        parser.error(
            "No question is about a commit of these repositories. Give the clones that FILE is about."
        )
    encoder = Encoder(read_encoder_weights(), torch.float32)
    for epoch, loss in enumerate(train(encoder, repositories, questions, options), 1):
        torch.save(encoder.state_dict(), options.out)
        logger.info("epoch %d: loss %.3f", epoch, loss)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.training.train_query_encoder",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("changes", type=Path, metavar="CHANGES")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY")
    parser.add_argument("--questions", type=Path, default=QUESTIONS_FILE, metavar="FILE")
    parser.add_argument("--epochs", type=int, default=EPOCHS, metavar="N")
    parser.add_argument("--rate", type=float, default=LEARNING_RATE, metavar="R")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    return parser


if __name__ == "__main__":
    main()
