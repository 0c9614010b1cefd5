"""Versions of the components that made an index, and the check whether this program can use it.

A component is a part of the program with a version, such as a parser or the embedding model. The caller passes the
current versions. This module knows what a change of each component means. Each transaction that writes rows also
records the versions of their components. Therefore even an interrupted run of another program version does not make an
index look more current than it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import duckdb

# Length of the vectors of every encoder. It is also the current version of the component `embedding_dimension`.
EMBEDDING_DIMENSION: Final = 384

REBUILD_COMMAND: Final = "lineage index --rebuild --yes"
FORCE_COMMAND: Final = "lineage index --force"
RESUME_COMMAND: Final = "lineage index"

# The two parts of an index: the history (commits, hunks and what belongs to them) and the HEAD snapshot.
# `--force` rewrites the whole HEAD snapshot, but only those rows of the history on which no vector depends.
HISTORY_PART: Final = "history"
HEAD_PART: Final = "head"

# Components whose change makes the stored vectors or tables unusable. Parsers are not among them, although the embedded
# texts have names of symbols: a vector stays usable if another version of a parser finds other names.
REBUILD_COMPONENTS: Final = frozenset(
    {"schema", "embedding_model", "embedding_dimension", "embed_cache", "semantic_text_version"}
)
# Components that write no rows, so no row can be outdated by them.
COMPONENTS_WITHOUT_ROWS: Final = frozenset({"schema", "reranker_model"})
# Part of each component that writes rows of one part only. Parsers and term splitting write rows of both parts.
_PART_BY_COMPONENT: Final = {
    "chunker_version": HEAD_PART,
    "embedding_model": HISTORY_PART,
    "embedding_dimension": HISTORY_PART,
    "semantic_text_version": HISTORY_PART,
    "embed_cache": HISTORY_PART,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentVersions:
    """Version of each component; None if not recorded."""

    schema: str | None = None
    embedding_model: str | None = None
    embedding_dimension: str | None = None
    reranker_model: str | None = None
    chunker_version: str | None = None
    semantic_text_version: str | None = None
    parser_rust: str | None = None
    parser_python: str | None = None
    parser_java: str | None = None
    parser_kotlin: str | None = None
    parser_typescript: str | None = None
    parser_javascript: str | None = None
    words_version: str | None = None  # of term splitting
    embed_cache: str | None = None

    def get(self, name: str) -> str | None:
        """Return the version of the component `name`; None if it is not recorded."""
        version: str | None = getattr(self, name)
        return version


COMPONENT_NAMES: Final = tuple(component.name for component in fields(ComponentVersions))


@dataclass(frozen=True, slots=True)
class RowVersion:
    """Version of a component that wrote rows of a part of the index.

    `part`: `HISTORY_PART` or `HEAD_PART`. `component`: one of `COMPONENT_NAMES`.
    `version`: None if it was not recorded.
    """

    part: str
    component: str
    version: str | None


@dataclass(frozen=True, slots=True)
class RecordedVersions:
    """Versions recorded in an index.

    - `confirmed`: versions that the newest finished index run recorded for all rows.
    - `row_versions`: versions of the rows, including rows of unfinished runs.
    - `unfinished_embed_cache`: embedding cache mode of the newest run, finished or not; None if unknown.
    """

    confirmed: ComponentVersions = ComponentVersions()
    row_versions: frozenset[RowVersion] = frozenset()
    unfinished_embed_cache: str | None = None

    def select_row_versions(self, component: str) -> tuple[RowVersion, ...]:
        """Return the row versions of this component, sorted."""
        rows = (row for row in self.row_versions if row.component == component)
        return tuple(sorted(rows, key=lambda row: (row.part, row.version or "")))

    @property
    def embed_cache(self) -> str | None:
        """Embedding cache mode: of the newest finished index run, else of the rows, else of an unfinished run.

        None if it is unknown.
        """
        versions = (row.version for row in self.select_row_versions("embed_cache"))
        return self.confirmed.embed_cache or next(versions, None) or self.unfinished_embed_cache

    @property
    def embedding_model(self) -> str | None:
        """Embedding model: of the existing vectors, else of the newest finished index run; None if unknown."""
        versions = (row.version for row in self.select_row_versions("embedding_model"))
        return next(versions, None) or self.confirmed.embedding_model


class CompatibilityStatus(Enum):
    """Result of the comparison of recorded and current versions. The values appear in JSON output."""

    COMPATIBLE = "compatible"
    NEEDS_REFRESH = "query_compatible_needs_refresh"
    NEEDS_REBUILD = "needs_rebuild"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CompatibilityVerdict:
    """Compatibility of an index with this program.

    - `reason`: text that lists the components that differ, or says that an index run is at work; else None.
      If the status is UNKNOWN, components that differ are not listed.
    - `missing`: components without a recorded version.
    - `remedy`: command that makes the index compatible; None if it is compatible, or if `during_run` omits the command.
    """

    status: CompatibilityStatus
    reason: str | None = None
    missing: tuple[str, ...] = ()
    remedy: str | None = None

    @property
    def has_no_finished_run(self) -> bool:
        """True until the first index run finishes; it may be in progress or interrupted."""
        return self.remedy == RESUME_COMMAND

    def during_run(self) -> CompatibilityVerdict:
        """Return the verdict to show during an index run, without the advice to start another run with `--force`."""
        if self.remedy != FORCE_COMMAND:
            return self
        note = "an index run is at work"
        reason = self.reason.replace(f"run `{FORCE_COMMAND}`", note) if self.reason else note
        return replace(self, reason=reason, remedy=None)

    def __str__(self) -> str:
        """Return the text that `lineage status` prints."""
        if self.status is CompatibilityStatus.NEEDS_REFRESH:
            return f"query-compatible, refresh recommended ({self.reason})"
        if self.status is CompatibilityStatus.NEEDS_REBUILD:
            return f"needs rebuild ({self.reason})"
        if self.status is CompatibilityStatus.UNKNOWN:
            missing = (
                "any component until a run ends" if self.has_no_finished_run else ", ".join(self.missing)
            )
            return f"unknown (no metadata for {missing}{f'; {self.reason}' if self.reason else ''})"
        return "compatible"


def check_compatibility(recorded: RecordedVersions, current: ComponentVersions) -> CompatibilityVerdict:
    """Compare the versions recorded in an index with the current ones.

    The result is the first that applies: a rebuild is needed, versions are unknown, a refresh is needed, compatible.
    """
    outdated_by_name = {
        name: outdated
        for name in COMPONENT_NAMES
        if (outdated := _find_outdated_versions(recorded, current, name))
    }
    outdated_rebuild_components = {
        name: outdated for name, outdated in outdated_by_name.items() if name in REBUILD_COMPONENTS
    }
    missing = tuple(name for name in COMPONENT_NAMES if _is_missing(recorded, name))
    if outdated_rebuild_components:
        return CompatibilityVerdict(
            CompatibilityStatus.NEEDS_REBUILD,
            _describe_differences(outdated_rebuild_components, current),
            remedy=REBUILD_COMMAND,
        )
    if missing:
        return CompatibilityVerdict(
            CompatibilityStatus.UNKNOWN, missing=missing, remedy=_choose_unknown_remedy(recorded, missing)
        )
    if outdated_by_name:
        return CompatibilityVerdict(
            CompatibilityStatus.NEEDS_REFRESH,
            f"{_describe_differences(outdated_by_name, current)}; run `{FORCE_COMMAND}`",
            remedy=FORCE_COMMAND,
        )
    return CompatibilityVerdict(CompatibilityStatus.COMPATIBLE)


def confirm_versions(row_versions: Iterable[RowVersion], current: ComponentVersions) -> ComponentVersions:
    """Return the versions to record at the end of an index run.

    A component gets None if the version of a row is unknown, else an outdated version if a row has one, else the
    current version.
    """
    recorded = RecordedVersions(row_versions=frozenset(row_versions))
    return ComponentVersions(**{name: _confirm_version(recorded, current, name) for name in COMPONENT_NAMES})


def find_stale_history_components(recorded: RecordedVersions, current: ComponentVersions) -> tuple[str, ...]:
    """Return the components that wrote outdated rows of the history, except those whose change needs a rebuild.

    The result can have only parsers and term splitting. `--force` writes their rows again.
    """
    return tuple(
        name
        for name in COMPONENT_NAMES
        if name not in REBUILD_COMPONENTS and _has_outdated_history(recorded, current, name)
    )


def get_component_parts(component: str) -> tuple[str, ...]:
    """Return the parts of an index in which the component writes rows."""
    if component in COMPONENTS_WITHOUT_ROWS:
        return ()
    return (_PART_BY_COMPONENT[component],) if component in _PART_BY_COMPONENT else (HISTORY_PART, HEAD_PART)


def load_recorded_versions(connection: duckdb.DuckDBPyConnection) -> RecordedVersions:
    """Read the component versions recorded in the index."""
    # `writer`: version that the newest run writes with. `version`: version that the newest finished run confirmed.
    metadata = connection.execute("SELECT component, version, writer FROM metadata").fetchall()
    version_by_component = {component: version for component, version, _ in metadata}
    writer_by_component = {component: writer for component, _, writer in metadata}
    rows = connection.execute("SELECT DISTINCT part, component, version FROM made_by").fetchall()
    confirmed_versions = ComponentVersions(
        **{name: version_by_component.get(name) for name in COMPONENT_NAMES}
    )
    return RecordedVersions(
        confirmed_versions,
        frozenset(RowVersion(*row) for row in rows if row[1] in COMPONENT_NAMES),
        writer_by_component.get("embed_cache"),
    )


def _confirm_version(recorded: RecordedVersions, current: ComponentVersions, name: str) -> str | None:
    """Return the version of one component to record; see `confirm_versions`."""
    rows = recorded.select_row_versions(name)
    if any(row.version is None for row in rows):
        return None
    outdated_versions = [
        row.version for row in rows if not _is_equivalent(name, row.version, current.get(name))
    ]
    return outdated_versions[0] if outdated_versions else current.get(name)


def _find_outdated_versions(
    recorded: RecordedVersions, current: ComponentVersions, name: str
) -> tuple[str, ...]:
    """Return the recorded versions of a component that differ from the current version.

    The result is empty if the component writes rows but has not written any yet.
    """
    rows = recorded.select_row_versions(name)
    versions = [row.version for row in rows]
    if name in COMPONENTS_WITHOUT_ROWS or rows:
        versions.append(recorded.confirmed.get(name))
    current_version = current.get(name)
    return tuple(
        dict.fromkeys(
            version
            for version in versions
            if version is not None and not _is_equivalent(name, version, current_version)
        )
    )


def _is_missing(recorded: RecordedVersions, name: str) -> bool:
    """Return whether the component has no confirmed version, or wrote a row with an unknown version."""
    has_unknown_version = any(row.version is None for row in recorded.select_row_versions(name))
    return has_unknown_version or recorded.confirmed.get(name) is None


def _choose_unknown_remedy(recorded: RecordedVersions, missing: Iterable[str]) -> str:
    """Return the command to run if versions are missing.

    The command resumes the first run, or rewrites the rows with unknown versions. It is a rebuild if vectors
    depend on these rows.
    """
    unknown_components = {
        name for name in missing for row in recorded.select_row_versions(name) if row.version is None
    }
    if not unknown_components and recorded.confirmed == ComponentVersions():
        return RESUME_COMMAND  # the first run is in progress or was interrupted
    return FORCE_COMMAND if unknown_components.isdisjoint(REBUILD_COMPONENTS) else REBUILD_COMMAND


def _has_outdated_history(recorded: RecordedVersions, current: ComponentVersions, name: str) -> bool:
    """Return whether a row of the history has an unknown or outdated version of the component."""
    current_version = current.get(name)
    return any(
        row.part == HISTORY_PART and not _is_equivalent(name, row.version, current_version)
        for row in recorded.select_row_versions(name)
    )


def _is_equivalent(name: str, recorded_version: str | None, current_version: str | None) -> bool:
    """Return whether rows of the recorded version of a component are as good as rows of the current version."""
    if name != "embed_cache":
        return recorded_version == current_version
    # Queries pass no cache mode, because they accept every mode. `off` and `semantic` give the same vectors; with
    # `diff`, another text is embedded.
    return current_version is None or (recorded_version == "diff") == (current_version == "diff")


def _describe_differences(outdated_by_name: dict[str, tuple[str, ...]], current: ComponentVersions) -> str:
    return ", ".join(
        f"{name} {' and '.join(versions)}, now {current.get(name)}"
        for name, versions in outdated_by_name.items()
    )
