"""The straight line of an index pass: walk, extract, embed, write, HEAD symbols, metadata."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from pipeline import head_symbols, write
from pipeline.component_versions import encoding_of
from pipeline.embed import Cached, Embedding
from pipeline.encoders.base import Encoder
from pipeline.extract import Extracted, Task, forget
from pipeline.git.errors import NothingToIndex, UnreadableObject
from pipeline.git.repository import Repository
from pipeline.head_symbols import FILES_PER_SLICE, HeadFile, Outlined, Slice, gone, slices, work
from pipeline.ignore import IgnoreRules
from pipeline.options import EmbedCache
from pipeline.profile import Profile
from pipeline.walk import batches
from pipeline.workers import Workers
from pipeline.write import Beginning
from stores import embedding_cache, writer
from stores.compatibility import Verdict
from stores.connections import Held
from stores.history import Unreadable
from stores.index_location import Place

# The specification's abort cost: a kill loses at most the batch in hand.
COMMITS_PER_BATCH: Final = 100

# Batches in a row that go to the same worker: a file's last version halves the parse of the next. Taking every
# other batch cost two workers 40 % more parsing than one, four in a row 13 %; longer runs wait longer in
# memory for their turn. Each run has a process of its own: one for the whole of a history of 5,000 commits came to
# hold 85 MB instead of 65, and took as long.
BATCHES_IN_A_ROW: Final = 4


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
    """Where a pass stands: `commits` of `total` are done; rows of `recorded` of them, and `hunks`, are written.

    `head_symbols`: written for HEAD's snapshot, which follows the history; `head_unread`: its files that could not be
    read.
    """

    commits: int = 0
    total: int = 0
    recorded: int = 0
    hunks: int = 0
    head_symbols: int = 0
    head_unread: tuple[str, ...] = ()
    watermark: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is to be done for HEAD's snapshot; `every`: each row of it is made anew.

    `unreadable` says why a directory of HEAD, and so what its snapshot should be, could not be read.
    """

    changed: tuple[HeadFile, ...] = ()
    gone: tuple[str, ...] = ()
    every: bool = False
    unreadable: str = ""

    @property
    def slices(self) -> int:
        """In how many portions the changed files go to the workers."""
        return -(-len(self.changed) // FILES_PER_SLICE)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a pass did. `seconds` is wall time; `unreadable` commits wait for the next pass, as do files of HEAD.

    `indexed`: commits that the index now has. `verdict` says how it now stands to this program.
    """

    head: str
    commits: int
    hunks: int
    head_symbols: int
    indexed: int
    unreadable: tuple[Unreadable, ...]
    head_unread: tuple[str, ...]
    verdict: Verdict
    seconds: float
    workers: int
    profile: Profile


@dataclass(frozen=True, slots=True)
class Pass:
    """One run over one repository; whoever starts it holds the place of the only one.

    `workers` extract, and no row depends on how many they are. `report` hears what there is to do, and of each batch.
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
            snapshot = self._snapshot(beginning, rules, head)
            self.repository.let_go()
            done = self._index_all(index, beginning, snapshot, rules)
            # What follows may copy the whole index, and wants their memory.
            self.workers.dismiss()
            self.encoder.unload()
            ending = write.finish(
                index,
                head,
                beginning,
                self.profile,
                head_renewed=snapshot.every and not done.head_unread,
                head_whole=not (snapshot.unreadable or done.head_unread),
            )
        return Summary(
            head=head,
            commits=done.recorded,
            hunks=done.hunks,
            head_symbols=done.head_symbols,
            indexed=ending.commits,
            unreadable=ending.unreadable,
            head_unread=done.head_unread or ((snapshot.unreadable,) if snapshot.unreadable else ()),
            verdict=ending.verdict,
            seconds=time.perf_counter() - started,
            workers=self._jobs(beginning, snapshot),
            profile=self.profile,
        )

    def _head(self) -> str:
        head = self.repository.head()
        if head is None:
            raise NothingToIndex(self.repository.root)
        return head

    def _emptied(self) -> EmbedCache | None:
        """Delete the index; how vectors are kept in the new one."""
        mode = self.options.embed_cache or write.mode_of(write.recorded_at(self.place))
        writer.delete_index(self.place)
        return mode

    def _begin(self, index: Held, head: str, mode: EmbedCache | None) -> Beginning:
        with self.profile.phase("walk"):
            return write.begin(index, self.repository, head, mode, encoding_of(self.encoder.name))

    def _index_all(
        self, index: Held, beginning: Beginning, snapshot: Snapshot, rules: IgnoreRules
    ) -> Progress:
        """Extract in the workers, embed and write here, in the order of the walk, HEAD's snapshot last."""
        with ExitStack() as stack:
            stack.callback(forget)  # where this process did the work itself
            cache = self._cache(stack, beginning)
            return self._index_batches(index, beginning, snapshot, rules, cache)

    def _cache(self, stack: ExitStack, beginning: Beginning) -> Cached | None:
        """The embedding cache, until the stack ends; None where none is wanted, or needed."""
        if beginning.mode is EmbedCache.OFF or not beginning.pending:
            return None
        kept = stack.enter_context(embedding_cache.opened(self.place, self.encoder.name))
        return Cached(kept, beginning.mode) if kept else None

    def _index_batches(
        self,
        index: Held,
        beginning: Beginning,
        snapshot: Snapshot,
        rules: IgnoreRules,
        cache: Cached | None,
    ) -> Progress:
        diff_only = beginning.mode is EmbedCache.DIFF
        embedding = Embedding(self.encoder, index, self.profile, cache, diff_only=diff_only)
        progress = Progress(total=len(beginning.pending))
        if progress.total:
            self.report(progress)
        jobs = self._jobs(beginning, snapshot)
        run = max(1, min(BATCHES_IN_A_ROW, -(-self._batches(beginning) // jobs)))
        tasks = self._tasks(beginning, snapshot, rules, diff_only=diff_only)
        for done in self.workers.mapped(work, tasks, most=jobs, run=run, renewed=True):
            if isinstance(done, Outlined):
                progress = self._write_head(index, done, progress)
                continue
            self.profile.add(done.profile)
            vectors = embedding.vectors(done)
            watermark = beginning.watermark_after(done.shas)
            use = cache.use() if cache else None
            write.write_batch(index, done, vectors, watermark, self.profile, cache=use)
            progress = _further(progress, done, watermark)
            self.report(progress)
        return self._write_head(index, gone(snapshot.gone), progress) if snapshot.gone else progress

    def _tasks(
        self, beginning: Beginning, snapshot: Snapshot, rules: IgnoreRules, *, diff_only: bool
    ) -> Iterator[Task | Slice]:
        """HEAD's files in line behind the history: no worker waits until the last batches are written."""
        for shas in batches(beginning.pending, self.options.commit_batch):
            yield Task(self.repository.door, rules, shas, diff_only)
        yield from slices(self.repository.door, snapshot.changed)

    def _write_head(self, index: Held, outlined: Outlined, progress: Progress) -> Progress:
        write.write_head(index, outlined, self.profile)
        return replace(
            progress,
            head_symbols=progress.head_symbols + outlined.symbols.num_rows,
            head_unread=progress.head_unread + outlined.unread,
        )

    def _snapshot(self, beginning: Beginning, rules: IgnoreRules, head: str) -> Snapshot:
        """What brings the HEAD snapshot up to date."""
        with self.profile.phase("symbols"):
            try:
                wanted = head_symbols.snapshot(self.repository, head, rules)
            except UnreadableObject as unreadable:
                return Snapshot(unreadable=unreadable.message)
            stale = {} if self.options.force else beginning.head_files
            changed = head_symbols.changed(wanted, stale)
            gone = [path for path in beginning.head_files if path not in wanted]
        return Snapshot(tuple(changed), tuple(gone), every=len(changed) == len(wanted))

    def _jobs(self, beginning: Beginning, snapshot: Snapshot) -> int:
        """No more workers than batches, or slices: starting one costs as much as either."""
        return max(1, min(self.workers.jobs, max(self._batches(beginning), snapshot.slices)))

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
