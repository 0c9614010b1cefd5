"""Search of several indexes: order, hits, hints and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from pipeline.git import releases
from serve.api_types import NamedRepository
from serve.errors import BadRequest, NoAnswer
from serve.find_types import FindAnswer, FindRequest
from serve.repositories import list_repositories, resolve_repositories
from serve.search import find_pattern, merged_search
from serve.search.features import CandidateFeatures
from serve.search.find_pattern import PatternSearcher
from serve.search.merged_search import find_in_repositories
from serve.search.rerank import FeatureReranker, Reranker
from stores import database, history
from stores.hunk_details import HunkDetailsCache
from stores.snapshot import Floats, Snapshot
from tests.pipeline.histories import get_location
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder, build_index
from tests.serve.search.helpers import NOW, find


class CountingReranker:
    """Reranker that counts its calls and the candidates that it has seen."""

    def __init__(self) -> None:
        self.count = self.calls = 0

    def predict(self, features: CandidateFeatures) -> Floats:
        self.count += len(features.matrix)
        self.calls += 1
        return FeatureReranker().predict(features)


class CountingEncoder(WordEncoder):
    """Encoder that records the texts of queries."""

    texts: ClassVar[list[str]] = []

    def encode_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.texts.extend(texts)
        return super().encode_queries(texts)


def create_repo(path: Path, home: Path, *messages: str) -> Repo:
    """Create and index a repository with a commit for each message."""
    repo = Repo.create(path)
    for number, message in enumerate(messages):
        repo.commit_file(
            f"src/part{number}.py", f"def part{number}():\n    {path.name}_{number}()\n", message
        )
    build_index(repo, home)
    return repo


@pytest.fixture
def repos(tmp_path: Path, home: Path) -> list[Repo]:
    """Three indexed repositories."""
    return [
        create_repo(tmp_path / "alpha", home, "Add a cache", "Raise the timeout of the socket"),
        create_repo(
            tmp_path / "beta", home, "Retry the connection after a timeout of the socket", "Add a logo"
        ),
        create_repo(tmp_path / "gamma", home, "Describe the license"),
    ]


def find_all(
    home: Path,
    text: str = "timeout of the socket",
    *,
    names: Sequence[str] = ("*",),
    reranker: Reranker | None = None,
    **options: object,
) -> FindAnswer:
    request = FindRequest(text, **options)  # type: ignore[arg-type]
    repositories = resolve_repositories(home, names, home)
    with closing(PatternSearcher(home, load_encoder=lambda _: CountingEncoder())) as searcher:
        return find_in_repositories(searcher, request, repositories, NOW, reranker=reranker)


def list_hits(answer: FindAnswer) -> list[tuple[str | None, str]]:
    return [(hit.repository, hit.commit_message.strip()) for hit in answer.hits]


@pytest.mark.parametrize("rerank", [True, False])
def test_hits_are_merged_by_probability(repos: list[Repo], home: Path, rerank: bool) -> None:
    """The hits of all repositories are ordered by score, also without the cross-encoder, and name the repository."""
    answer = find_all(home, rerank=rerank)
    scores = [hit.combined_score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True) and len(scores) == 5
    assert {hit[0] for hit in list_hits(answer)[:2]} == {"alpha", "beta"}
    assert all("timeout" in message for _, message in list_hits(answer)[:2])
    for repo in repos:
        alone = {hit.commit_sha: hit for hit in find(repo, home, "timeout of the socket").hits}
        for hit in answer.hits:
            if hit.repository == repo.path.name:
                assert replace(hit, repository=None) == alone[hit.commit_sha]


def test_one_named_repository_has_the_same_hits_as_its_path(repos: list[Repo], home: Path) -> None:
    """A single repository by name has the same hits in the same order as by its path, and only they name it."""
    named = find_all(home, names=["alpha"]).hits
    by_path = find(repos[0], home, "timeout of the socket").hits
    assert [replace(hit, repository=None) for hit in named] == list(by_path)
    assert {hit.repository for hit in by_path} == {None}


def test_ties_are_in_the_order_of_names(tmp_path: Path, home: Path) -> None:
    """Of commits with equal probability, the repository whose name comes first in the alphabet is first."""
    for name in ("zeta", "eta", "beta"):
        repo = Repo.create(tmp_path / name)
        repo.commit_file("same.py", "timeout = 1\n", f"Set the timeout\n\n{name}")
        build_index(repo, home)
    answer = find_all(home, "Set the timeout")
    assert len({hit.combined_score for hit in answer.hits}) == 1
    assert [hit.repository for hit in answer.hits] == ["beta", "eta", "zeta"]


def test_commit_of_several_repositories_is_one_hit(tmp_path: Path, home: Path) -> None:
    """A commit that a fork also has is one hit, although another file of it is the best one in each of the two."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("a.py", "timeout = 1\n")
    repo.write("b.py", "cache = 1\n")
    shared = repo.commit("Begin")
    repo.git("clone", "--quiet", ".", str(tmp_path / "fork"))
    for path, common_word in ((repo.path, "cache"), (tmp_path / "fork", "timeout")):
        for number in range(5):
            Repo(path).commit_file(f"{number}.py", f"{common_word} = {number}\n", f"Count to {number}")
        build_index(Repo(path), home)
    files = {
        find(Repo(path), home, "cache timeout", k=20, path="/[ab].py").hits[0].file_path
        for path in (repo.path, tmp_path / "fork")
    }
    assert files == {"a.py", "b.py"}
    assert [hit.commit_sha for hit in find_all(home, "cache timeout", k=20, path="/[ab].py").hits] == [shared]


def test_reranked_candidates_and_encoded_queries_are_bounded(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all indexes together, as many candidates are reranked as of one; the query is encoded once."""
    for name in ("one", "two", "three"):
        create_repo(tmp_path / name, home, *(f"Raise timeout {number} of {name}" for number in range(20)))
    monkeypatch.setattr(CountingEncoder, "texts", [])
    reranker = CountingReranker()
    find_all(home, "timeout", reranker=reranker)
    assert reranker.count == 50
    assert reranker.calls == 1
    assert CountingEncoder.texts == ["timeout"]


def test_repeated_questions_load_once(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers with cached postings, releases and statuses equal the first one; each index loads these once."""
    names = [f"repo{number}" for number in range(6)]
    for name in names:
        create_repo(tmp_path / name, home, f"Raise the timeout of {name}", "Add a cache").git("tag", "v1")
    calls: list[str] = []

    def count_calls(owner: object, function: str) -> None:
        original = getattr(owner, function)

        def call(*arguments: object) -> object:
            calls.append(function)
            return original(*arguments)

        monkeypatch.setattr(owner, function, call)

    count_calls(Snapshot, "with_postings")
    count_calls(releases, "_compute_releases")
    count_calls(history, "load_unreadable_commits")
    request, repositories = FindRequest("timeout", k=6), resolve_repositories(home, names, home)
    with closing(PatternSearcher(home, load_encoder=lambda _: CountingEncoder())) as searcher:
        answers = [find_in_repositories(searcher, request, repositories, NOW) for _ in range(4)]
    assert {hit.repository for hit in answers[0].hits} == set(names)
    assert {hit.release.tag for hit in answers[0].hits if hit.release} == {"v1"}
    assert answers == [answers[0]] * 4
    assert Counter(calls) == dict.fromkeys(
        ("with_postings", "_compute_releases", "load_unreadable_commits"), len(names)
    )


def test_failing_indexes_are_named_and_the_others_answer(
    repos: list[Repo], home: Path, tmp_path: Path
) -> None:
    """A damaged index, one of a newer schema and one of a missing repository are named; the others answer."""
    alpha, beta, gamma = repos
    delta = create_repo(tmp_path / "delta", home, "Wait for the timeout of the socket")
    get_location(alpha, home).database.write_bytes(b"no database" * 1000)
    with database.open_for_writing(get_location(beta, home)) as connection:
        connection.execute("UPDATE migrations SET version = 99")
    gamma.path.rename(tmp_path / "moved")
    answer = find_all(home)
    assert {hit.repository for hit in answer.hits} == {"delta"}
    hint = answer.meta.hint or ""
    assert (
        "alpha: no answer, because: The index" in hint
        and f"`lineage index --rebuild --yes {alpha.path}`" in hint
    )
    assert "beta: no answer, because: " in hint and "supports schemas up to" in hint
    assert f"gamma: no answer, because: {gamma.path} is no longer a repository." in hint
    assert "delta" not in hint
    with pytest.raises(NoAnswer, match=r"alpha: no answer, because: .*gamma: no answer"):
        find_all(home, names=["alpha", "gamma"])
    assert delta.head == answer.hits[0].commit_sha


def test_index_that_fails_in_the_last_step(
    repos: list[Repo], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while one index builds its hits is that index's error, and the other hits are kept."""
    build_hits = find_pattern.build_hits

    def fail_for_beta(
        connection: object, query: object, results: object, chosen: object, encoder: object
    ) -> object:
        hits = build_hits(connection, query, results, chosen, encoder)  # type: ignore[arg-type]
        if any("Retry" in hit.commit_message for hit in hits):
            raise database.DamagedIndex("A block is damaged.")
        return hits

    monkeypatch.setattr(merged_search, "build_hits", fail_for_beta)
    answer = find_all(home)
    assert [hit.repository for hit in answer.hits if hit.repository == "beta"] == []
    assert len(answer.hits) == 3
    assert "beta: no answer, because: A block is damaged." in (answer.meta.hint or "")
    assert not get_location(repos[0], home).damage.exists()


class ReadingReranker:
    """Reranker that reads the changes of all candidates, as a cross-encoder does."""

    def predict(self, features: CandidateFeatures) -> Floats:
        changes = features.rerank_inputs.load_changes(range(len(features.matrix)))
        assert len(changes) == len(features.matrix)
        return FeatureReranker().predict(features)


@pytest.mark.usefixtures("repos")
def test_index_that_fails_while_it_is_reranked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while the changes of one index are read is that index's error, and the other hits are kept."""
    load = HunkDetailsCache.load

    def fail_for_beta(cache: HunkDetailsCache, hunk_ids: Sequence[int]) -> object:
        details = load(cache, hunk_ids)
        if any("Retry" in hunk.commit_message for hunk in details):
            raise database.DamagedIndex("A block is damaged.")
        return details

    monkeypatch.setattr(HunkDetailsCache, "load", fail_for_beta)
    answer = find_all(home, reranker=ReadingReranker())
    assert {hit.repository for hit in answer.hits} == {"alpha", "gamma"}
    assert "beta: no answer, because: A block is damaged." in (answer.meta.hint or "")


@pytest.mark.usefixtures("repos")
def test_threads_do_not_change_the_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes that are searched in threads of their own give the same answer."""
    answer = find_all(home)
    monkeypatch.setattr(merged_search, "LARGE_INDEX_COMMITS", 1)
    assert find_all(home) == answer


def test_hints_name_the_repository_and_its_path(repos: list[Repo], home: Path) -> None:
    """The hint of an index behind HEAD names it, and its command has the path; the status adds up."""
    repos[1].commit_file("new.py", "x = 1\n", "Count")
    answer = find_all(home)
    assert answer.meta.hint == (
        f"beta: The index is 1 commit behind HEAD: run `lineage index --incremental {repos[1].path}`."
    )
    assert answer.meta.index_status.commits_behind_head == 1


def test_many_hints_are_counted(tmp_path: Path, home: Path) -> None:
    """Only three hints are quoted in full."""
    for number in range(5):
        create_repo(tmp_path / f"repo{number}", home, "Set the timeout").commit_file(
            "b.py", f"b = {number}\n"
        )
    hint = find_all(home, "Set the timeout").meta.hint or ""
    assert hint.count("behind HEAD") == 3
    assert "Other indexes with hints: 2. `lineage status --all` lists them." in hint


def test_names_and_paths(repos: list[Repo], home: Path, tmp_path: Path) -> None:
    """Names and paths name a repository once; ambiguous, unknown and unindexed ones are refused with a remedy."""
    create_repo(tmp_path / "forks" / "alpha", home, "Add a fork")
    bare = tmp_path / "tool.git"
    repos[1].git("clone", "--quiet", "--bare", ".", str(bare))
    build_index(Repo(bare), home)
    Repo.create(tmp_path / "fresh").commit_file("a.py", "a = 1\n")
    forks = tmp_path / "forks" / "alpha"
    names = [repository.name for repository in list_repositories(home)]
    assert sorted(names) == sorted([str(repos[0].path), str(forks), "beta", "gamma", "tool"])

    def resolve(*names: str) -> list[NamedRepository]:
        return resolve_repositories(home, names, tmp_path)

    assert resolve("beta", str(repos[1].path / "src"), "./beta") == [
        NamedRepository("beta", str(repos[1].path))
    ]
    assert resolve("tool.git") == resolve("tool") == [NamedRepository("tool", str(bare))]
    assert resolve("./forks/alpha") == [NamedRepository(str(forks), str(forks))]
    with pytest.raises(BadRequest, match="Several repositories are called 'alpha'") as ambiguous:
        resolve("alpha")
    assert str(repos[0].path) in ambiguous.value.hint and str(forks) in ambiguous.value.hint
    with pytest.raises(BadRequest, match="No indexed repository is called 'gama'") as unknown:
        resolve("gama")
    assert "Did you mean gamma?" in unknown.value.hint
    for name in ("~nosuchuser/alpha", "a" * 5_000):
        with pytest.raises(BadRequest, match="No indexed repository is called") as unknown:
            resolve(name)
        assert len(unknown.value.message) < 300
    with pytest.raises(BadRequest, match="fresh is not indexed yet") as unindexed:
        resolve("fresh")
    assert unindexed.value.hint == f"Run `lineage index {tmp_path / 'fresh'}`."
    Repo.create(tmp_path / "x`;touch-pwned;`y").commit_file("a.py", "a = 1\n")
    with pytest.raises(BadRequest, match="is not indexed yet") as unsafe:
        resolve("x`;touch-pwned;`y")
    assert unsafe.value.hint == "Run `lineage index` in it."
    with pytest.raises(BadRequest, match="No repository is named"):
        resolve()
