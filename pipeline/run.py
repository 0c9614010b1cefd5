"""The straight line of an index pass: walk, extract, embed, write, HEAD symbols, metadata."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from pipeline import head as head_symbols
from pipeline import write
from pipeline.caching import Cached
from pipeline.embed import Embedding
from pipeline.encoder import Encoder
from pipeline.extract import Extracted, Task, extract
from pipeline.git.refusals import NothingToIndex, UnreadableObject
from pipeline.git.repository import Repository
from pipeline.ignore import IgnoreRules
from pipeline.modes import EmbedCache
from pipeline.profile import Profile
from pipeline.walk import batches
from pipeline.workers import Workers
from pipeline.write import Beginning
from stores import embeddings, writing
from stores.history import Unreadable
from stores.holding import Held
from stores.metadata import Verdict
from stores.places import Place

# The specification's abort cost: a kill loses at most the batch in hand.
COMMITS_PER_BATCH: Final = 100

# Batches in a row that go to the same worker: a file's last version halves the parse of the next. Taking every
# other batch cost two workers 40 % more parsing than one, four in a row 13 %; longer runs wait longer in
# memory for their turn.
BATCHES_IN_A_ROW: Final = 4

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """How a pass is run; none of it changes a row, but for what `embed_cache` has embedded.

    `commit_batch`: commits per transaction.
    `force`: extract every HEAD symbol again. `rebuild`: delete the index first.
    `embed_cache`: how vectors are kept; None for what the index has.
    """

    commit_batch: int = COMMITS_PER_BATCH
    force: bool = False
    rebuild: bool = False
    embed_cache: EmbedCache | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a pass stands: `commits` of `total` are done; rows of `recorded` of them, and `hunks`, are written."""

    commits: int = 0
    total: int = 0
    recorded: int = 0
    hunks: int = 0
    watermark: str | None = None


@dataclass(frozen=True, slots=True)
class Outlined:
    """What was done for HEAD's snapshot: symbols extracted, and whether every row of it was made anew."""

    symbols: int = 0
    renewed: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """What a pass did. `seconds` is wall time; `unreadable` commits wait for the next pass.

    `verdict` says how the index now stands to this program.
    """

    head: str
    commits: int
    hunks: int
    head_symbols: int
    unreadable: tuple[Unreadable, ...]
    verdict: Verdict
    seconds: float
    workers: int
    profile: Profile


@dataclass(frozen=True, slots=True)
class Pass:
    """One run over one repository; whoever starts it holds the place of the only one.

    `workers` extract, and no row depends on how many they are.
    """

    repository: Repository
    place: Place
    options: Options
    encoder: Encoder
    workers: Workers = field(default_factory=lambda: Workers(1))
    report: Callable[[Progress], None] = lambda _: None
    profile: Profile = field(default_factory=Profile)

    def run(self) -> Summary:
        """Bring the index up to HEAD; interrupted at any moment, the next pass goes on from there."""
        started = time.perf_counter()
        rules = IgnoreRules.of(self.repository)
        head = self._head()
        mode = self._emptied() if self.options.rebuild else self.options.embed_cache
        with Held(self.place) as index:
            beginning = self._begin(index, head, mode)
            done = self._index_history(index, beginning, rules)
            outlined = self._index_head(index, beginning, rules, head)
            self.workers.end()  # what follows may copy the whole index, and wants their memory
            ending = write.finish(
                index, head, beginning.components, self.profile, head_renewed=outlined.renewed
            )
        return Summary(
            head=head,
            commits=done.recorded,
            hunks=done.hunks,
            head_symbols=outlined.symbols,
            unreadable=ending.unreadable,
            verdict=ending.verdict,
            seconds=time.perf_counter() - started,
            workers=self._jobs(beginning),
            profile=self.profile,
        )

    def _head(self) -> str:
        head = self.repository.head()
        if head is None:
            raise NothingToIndex(self.repository.root)
        return head

    def _emptied(self) -> EmbedCache | None:
        """Delete the index; how vectors are kept in the new one."""
        mode = self.options.embed_cache or write.mode_of(self.place)
        writing.delete_index(self.place)
        return mode

    def _begin(self, index: Held, head: str, mode: EmbedCache | None) -> Beginning:
        with self.profile.phase("walk"):
            return write.begin(index, self.repository, head, mode)

    def _index_history(self, index: Held, beginning: Beginning, rules: IgnoreRules) -> Progress:
        """Extract in the workers, embed and write here, batch by batch, in the order of the walk."""
        with ExitStack() as stack:
            cache = self._cache(stack, beginning)
            return self._index_batches(index, beginning, rules, cache)

    def _cache(self, stack: ExitStack, beginning: Beginning) -> Cached | None:
        """The embedding cache, until the stack ends; None where none is wanted, or needed."""
        if beginning.mode is EmbedCache.OFF or not beginning.pending:
            return None
        kept = stack.enter_context(embeddings.opened(self.place, self.encoder.name))
        return Cached(kept, beginning.mode) if kept else None

    def _index_batches(
        self, index: Held, beginning: Beginning, rules: IgnoreRules, cache: Cached | None
    ) -> Progress:
        diff_only = beginning.mode is EmbedCache.DIFF
        embedding = Embedding(self.encoder, index if beginning.resumes else None, cache, diff_only=diff_only)
        tasks = (
            Task(self.repository.root, rules, shas, diff_only)
            for shas in batches(beginning.pending, self.options.commit_batch)
        )
        progress = Progress(total=len(beginning.pending))
        jobs = self._jobs(beginning)
        run = min(BATCHES_IN_A_ROW, -(-self._batches(beginning) // jobs))
        for extracted in self.workers.mapped(extract, tasks, most=jobs, run=run):
            self.profile.add(extracted.profile)
            with self.profile.phase("embed"):
                vectors = embedding.vectors(extracted)
            watermark = beginning.watermark_after(extracted.shas)
            use = cache.use() if cache else None
            write.write_batch(index, extracted, vectors, watermark, self.profile, cache=use)
            progress = _further(progress, extracted, watermark)
            self.report(progress)
        return progress

    def _index_head(self, index: Held, beginning: Beginning, rules: IgnoreRules, head: str) -> Outlined:
        """Bring the HEAD snapshot up to date."""
        with self.profile.phase("symbols"):
            try:
                wanted = head_symbols.snapshot(self.repository, head, rules)
            except UnreadableObject as unreadable:
                logger.warning("HEAD symbols stay as they were: %s", unreadable)
                return Outlined()
            stale = {} if self.options.force else beginning.head_files
            changed = head_symbols.changed(wanted, stale)
            gone = [path for path in beginning.head_files if path not in wanted]
        extracted = 0
        for change in head_symbols.changes(self.repository.root, changed, gone, self.workers):
            write.write_head(index, change, self.profile)
            extracted += change.symbols.num_rows
        return Outlined(extracted, renewed=len(changed) == len(wanted))

    def _jobs(self, beginning: Beginning) -> int:
        """No more workers than batches: starting one costs as much as a batch."""
        return max(1, min(self.workers.jobs, self._batches(beginning)))

    def _batches(self, beginning: Beginning) -> int:
        return -(-len(beginning.pending) // self.options.commit_batch)


def _further(progress: Progress, extracted: Extracted, watermark: str | None) -> Progress:
    return replace(
        progress,
        commits=progress.commits + len(extracted.shas),
        recorded=progress.recorded + extracted.commits.num_rows,
        hunks=progress.hunks + extracted.hunks.num_rows,
        watermark=watermark or progress.watermark,
    )
