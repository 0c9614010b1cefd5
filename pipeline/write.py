"""One batch into the store, watermark last, all or nothing; and what a pass must know before its first batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pipeline.component_versions import components, encoding_of
from pipeline.extract import Extracted
from pipeline.git.repository import Repository
from pipeline.head_symbols import Outlined
from pipeline.options import EmbedCache, Encoding
from pipeline.profile import Profile
from pipeline.walk import left, reach, unreached, walked
from stores import compatibility, database, history, maintenance, quantized_vectors, writer
from stores.compatibility import REBUILD, Components, Recorded, Status, Verdict
from stores.connections import Held
from stores.database import DamagedIndex, NotIndexed
from stores.errors import LineageError
from stores.history import Unreadable, Use
from stores.hunk_details import Connection
from stores.index_location import Place
from stores.migrations import NewerSchema
from stores.types import Reach
from stores.writer import Batch, HeadChange


class IncompatibleIndex(LineageError):
    """The index holds vectors this program cannot add to."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a pass starts from.

    `pending`: commits to index, parents before children. `waiting`: commits that were unreadable, of which `pending`
    has those that HEAD reaches, to be tried again; `elsewhere`: those that it does not. `head_files`: path -> blob.
    `components`: what this pass makes rows with.
    """

    pending: tuple[str, ...]
    waiting: frozenset[str]
    elsewhere: frozenset[str]
    head_files: dict[str, str]
    components: Components

    @property
    def mode(self) -> EmbedCache:
        """How this pass keeps vectors."""
        return EmbedCache(self.components.embed_cache or EmbedCache.OFF)

    def watermark_after(self, shas: Sequence[str]) -> str | None:
        """Where the walk stands after these commits; a retried one lies behind it."""
        walked = [sha for sha in shas if sha not in self.waiting]
        return walked[-1] if walked else None


@dataclass(frozen=True, slots=True)
class Ending:
    """What a pass leaves: how many commits, which yet unreadable, and how the index now stands to this program."""

    commits: int
    unreadable: tuple[Unreadable, ...]
    verdict: Verdict


def begin(
    index: Held, repository: Repository, head: str, mode: EmbedCache | None, encoding: Encoding | None = None
) -> Beginning:
    """Open or make the index, note the HEAD this pass aims at, and find what there is to do.

    Without a `mode` the index keeps the one it has.
    """
    with index.batch() as connection:
        known = compatibility.recorded(connection)
        status = history.status(connection)
        waiting = frozenset(entry.commit_sha for entry in history.unreadable(connection))
    current = components(mode or mode_of(known) or EmbedCache.OFF, encoding)
    _refuse_other_vectors(known, current)
    # A long history is walked for seconds: meanwhile questions are answered.
    watermark = status.last_indexed_commit if status else None
    reached = walked(repository, head, watermark, waiting)
    change = reach(repository, head, status.head_commit) if status else Reach()
    with index.batch() as connection:
        todo = left(reached, partial(history.recorded, connection), waiting)
        writer.begin_pass(
            connection,
            index.place,
            head=head,
            unreached=_unreached(connection, change) if status else (),
            components=current,
        )
        return Beginning(
            pending=tuple(todo),
            waiting=waiting,
            elsewhere=waiting.difference(reached),
            head_files=history.head_files(connection),
            components=current,
        )


def recorded_at(place: Place) -> Recorded | None:
    """The versions that the index at this place names; None where there is none, or none that can be read."""
    try:
        with database.reading(place) as connection:
            return compatibility.recorded(connection)
    except (NotIndexed, DamagedIndex, NewerSchema):
        return None


def mode_of(recorded: Recorded | None) -> EmbedCache | None:
    """How an index keeps vectors; None where it does not say."""
    known = recorded.embed_cache if recorded else None
    return EmbedCache(known) if known in set(EmbedCache) else None


def known_vectors(index: Held, digests: Iterable[bytes], profile: Profile) -> set[bytes]:
    """Those of the texts that are embedded already."""
    with profile.phase("storage"), index.batch() as connection:
        return history.known_digests(connection, digests)


def write_batch(
    index: Held,
    extracted: Extracted,
    vectors: pa.RecordBatch,
    watermark: str | None,
    profile: Profile,
    *,
    cache: Use | None = None,
) -> None:
    """A batch's rows and its watermark, in one transaction, with what the pass had of the cache so far."""
    batch = Batch(
        covered=extracted.shas,
        commits=extracted.commits,
        hunks=extracted.hunks,
        hunk_symbols=extracted.hunk_symbols,
        vectors=vectors,
        hunk_words=extracted.hunk_words,
        symbol_words=extracted.symbol_words,
        unreadable=extracted.unreadable,
        watermark=watermark,
        cache=cache,
    )
    _timed(index, profile, "storage", lambda connection: writer.replace_batch(connection, batch))


def write_head(index: Held, outlined: Outlined, profile: Profile) -> None:
    """One slice of the HEAD snapshot, in one transaction."""
    change = HeadChange(
        replaced_paths=outlined.paths,
        files=outlined.files,
        symbols=outlined.symbols,
        chunks=outlined.chunks,
        words=outlined.words,
    )
    _timed(index, profile, "symbols", lambda connection: writer.replace_head(connection, change))


def finish(
    index: Held, head: str, beginning: Beginning, profile: Profile, *, head_renewed: bool, head_whole: bool
) -> Ending:
    """Move the watermark to HEAD and vouch for the versions in one transaction; leave the file compact.

    What HEAD does not reach is not waited for any more: with this watermark a walk finds it anew. `head_whole` says
    that HEAD's snapshot is all there, `head_renewed` that this pass made every row of it.
    """
    with profile.phase("storage"):
        with index.batch() as connection:
            current = beginning.components
            writer.end_pass(
                connection,
                head,
                current,
                forgotten=sorted(beginning.elsewhere),
                head_renewed=head_renewed,
                head_whole=head_whole,
            )
            status = history.status(connection)
            unreadable = history.unreadable(connection)
            verdict = compatibility.verdict(compatibility.recorded(connection), current)
        index.let_go()
        maintenance.tidy(index.place)
        quantized_vectors.refresh(index.place)
    return Ending(status.commits if status else 0, unreadable, verdict)


def _unreached(connection: Connection, change: Reach) -> Sequence[str]:
    """Recorded commits that HEAD does not reach; after a short step only those the step concerns are asked for."""
    before = history.unreached(connection)
    asked = {*before, *change.gone}
    recorded = history.all_recorded(connection) if change.complete else history.recorded(connection, asked)
    return unreached(change, before, recorded)


def _refuse_other_vectors(recorded: Recorded, current: Components) -> None:
    verdict = compatibility.verdict(recorded, current)
    if verdict.status is Status.NEEDS_REBUILD:
        raise IncompatibleIndex(
            f"The index {verdict}.", hint=f"Run `{' '.join((REBUILD, *_switched(recorded, current)))}`."
        )


def _switched(recorded: Recorded, current: Components) -> Iterator[str]:
    """What a rebuild has to be told, or it would make the index as it was."""
    wanted = encoding_of(current.embedding_model)
    if wanted and encoding_of(recorded.embedding_model) not in (wanted, None):
        yield f"--encoder {wanted}"
    modes = {recorded.embed_cache, current.embed_cache}
    if len(modes) > 1 and EmbedCache.DIFF in modes:
        yield f"--embed-cache {current.embed_cache}"


def _timed(index: Held, profile: Profile, phase: str, write: Callable[[Connection], writer.Spent]) -> None:
    """Write, and book the time for full text apart from the rest."""
    with profile.phase(phase), index.batch() as connection:
        spent = write(connection)
    profile.spend("fts", spent.full_text)
    profile.spend(phase, -spent.full_text)
