"""Mining of training lists from a small repository."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.encoders.base import load_tokenizer
from pipeline.training import mine_lists, word_bags
from pipeline.training.commit_sampling import (
    MergeSample,
    map_repositories,
    parse_merge_title,
    read_commit_texts,
    sample_merges,
)
from pipeline.training.list_training import ListDataset, split_files
from pipeline.training.mine_lists import CandidateRetriever, QueryKind, build_queries
from tests.eval import judgments, learn, results
from tests.pipeline.training.sample_history import COMMITS, MERGES
from tests.repos import Repo


def test_read_commit_texts(repo: Repo) -> None:
    """A commit gives the parts of its message, a changelog line without markup, and its change."""
    commits = read_commit_texts(repo.path, 100, 1)
    assert len(commits) == COMMITS + 2 * MERGES
    one = next(commit for commit in commits if "locks end after 9 " in commit.subject)
    assert one.subject == "Let waiting for locks end after 9 seconds"
    assert one.sentences[0] == "A peer that never answers kept locks and its caller forever."
    assert one.changelog_line == "locks number 9 no longer wait for peers that never answer"
    (change,) = one.changes
    assert "return waited(limit, locks)" in change
    assert "peer" not in change
    assert read_commit_texts(repo.path, 5, 1) == commits[:5] != read_commit_texts(repo.path, 5, 2)


def test_build_queries(repo: Repo) -> None:
    """Each kind of query has its share and subjects fill the rest.

    A sentence is removed from its message; a title is answered by every merged commit.
    """
    commits = read_commit_texts(repo.path, 100, 1)
    queries = build_queries(commits, sample_merges(repo.path, 1, 100), 80)
    assert {kind: sum(one.kind is kind for one in queries) for kind in QueryKind} == {
        QueryKind.SUBJECT: 36,
        QueryKind.SENTENCE: 24,
        QueryKind.CHANGELOG: 16,
        QueryKind.TITLE: 4,
    }
    for one in queries:
        assert one.text not in one.rest
        assert bool(one.rest) is (one.kind is QueryKind.SENTENCE)
    for one in (one for one in queries if one.kind is QueryKind.TITLE):
        number = one.text.removeprefix("Look at how slow port ").removesuffix(" is")
        subjects = {commits[answer].subject for answer in one.commits}
        assert subjects == {f"Measure reading {number} too", f"Measure writing {number} too"}


def test_sample_merges(repo: Repo) -> None:
    """Merges with a pull-request title are sampled; a title equal to a commit subject is not used."""
    commits_by_title = {merge.title: merge.commits for merge in sample_merges(repo.path, 1, 100)}
    assert {title: len(commits) for title, commits in commits_by_title.items()} == {
        f"Look at how slow port {number} is": 2 for number in range(MERGES)
    }
    assert commits_by_title == {merge.title: merge.commits for merge in sample_merges(repo.path, 2, 100)}
    subject_merges = [
        MergeSample(commit.subject, (commit.sha,)) for commit in read_commit_texts(repo.path, 100, 1)
    ]
    assert not [
        one
        for one in build_queries(read_commit_texts(repo.path, 100, 1), subject_merges, 80)
        if one.kind is QueryKind.TITLE
    ]


@pytest.mark.parametrize(
    ("message", "title"),
    [
        (
            "Merge pull request #3 from ada/part\n\nfix: Wait no longer than asked (#3)",
            "Wait no longer than asked",
        ),
        ("Auto merge of #3 - ada:part, r=bob\n\nWait no longer than asked\n", "Wait no longer than asked"),
        ("Merge #3\n\n3: Wait no longer than asked r=bob a=ada", "Wait no longer than asked"),
        ("Merge branch 'main' into part\n\n# Conflicts:\n#\tsrc/a.py", ""),
        ("Merge branch 'part'", ""),
        ("Merge pull request #3 from ada/part\n\nRelease 3.1 of it", ""),
        ("Wait no longer\n\nThan asked by anybody", ""),
    ],
)
def test_parse_merge_title(message: str, title: str) -> None:
    """The title is the line below the merge subject, without numbers and reviewers."""
    assert parse_merge_title(message) == title


def test_candidate_retriever(repo: Repo) -> None:
    """BM25 and vectors both rank the change with the queried name first."""
    commits = read_commit_texts(repo.path, 100, 1)
    retriever = CandidateRetriever.from_commits(commits)
    for include_messages in (False, True):
        for scores in retriever.score(["what is replies_6 for?"], include_messages=include_messages):
            best = commits[retriever.commit_numbers[int(np.argmax(scores[0]))]]
            assert "replies end after 6 " in best.message


def test_weight_of_the_message(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a weight of 0 messages change no cosine; with the weight of an index they raise some."""
    retriever = CandidateRetriever.from_commits(read_commit_texts(repo.path, 100, 1))
    queries = ["peers that never answer keep locks"]
    _, change_cosines = retriever.score(queries, include_messages=False)
    _, cosines = retriever.score(queries, include_messages=True)
    assert (cosines >= change_cosines).all() and (cosines > change_cosines).any()
    monkeypatch.setattr(mine_lists, "MESSAGE_WEIGHT", 0.0)
    _, unweighted_cosines = retriever.score(queries, include_messages=True)
    assert np.array_equal(unweighted_cosines, change_cosines)


def test_candidate_lists(repo: Repo, lists: Path) -> None:
    """A list has a change of the answer first, then one change of each other commit, with lane scores."""
    commits = read_commit_texts(repo.path, 100, 1)
    queries = build_queries(commits, sample_merges(repo.path, 1, 100), 80)
    with np.load(lists) as arrays:
        commits_by_change, lists_of_changes, query_numbers, lane_scores = (
            arrays[name] for name in ("commit", "lists", "query_numbers", "lane_scores")
        )
    assert len(lists_of_changes) > 50
    for number, changes in zip(query_numbers, lists_of_changes, strict=True):
        list_commits = commits_by_change[changes]
        assert list_commits[0] in queries[number].commits
        assert not set(list_commits[1:].tolist()) & set(queries[number].commits)
        assert len(set(list_commits.tolist())) == mine_lists.NEGATIVES + 1
    assert lane_scores.shape == (*lists_of_changes.shape, 2)
    assert 0 <= lane_scores[..., 0].min() < lane_scores[..., 0].max() <= 1


def test_list_dataset(repo: Repo, lists: Path) -> None:
    """A list hides the message of subjects, and the queried sentence of its answer."""
    del repo
    dataset = ListDataset.read(lists)
    decode = load_tokenizer().decode
    for index in range(len(dataset)):
        kind, (answer, *negatives) = dataset.get_kind(index), dataset.get_candidates(index)
        assert len(negatives) == mine_lists.NEGATIVES
        assert dataset.shows_messages(index, None) is (kind is not QueryKind.SUBJECT)
        query, message = (
            decode(dataset.draw_query_tokens(index, None)),
            decode(dataset.get_message_tokens(index, answer)),
        )
        assert ("let waiting" in message) is (kind is not QueryKind.TITLE and "measure" not in message)
        assert (query in message) is (kind is QueryKind.SUBJECT)
    subjects = [index for index in range(len(dataset)) if dataset.get_kind(index) is QueryKind.SUBJECT]
    generator = np.random.default_rng(1)
    has_opening = [
        decode(dataset.draw_query_tokens(index, generator)).startswith(("how", "where")) for index in subjects
    ]
    assert 0 < sum(has_opening) < len(has_opening) / 2


def test_repositories_with_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Repositories that would write the same file are an error, before anything is written."""
    paths = [str(tmp_path / owner / "foo" / ".git") for owner in ("a", "b")]
    for command in (mine_lists, word_bags):
        monkeypatch.setattr("sys.argv", ["command", str(tmp_path / "out"), *paths])
        with pytest.raises(SystemExit, match="2"):
            command.main()
        assert f"{paths[0]} and {paths[1]} have the same name." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_results_arrive_group_by_group() -> None:
    """The result of a repository is available before all repositories are processed, in order."""
    started: list[int] = []

    def process(number: int) -> str:
        started.append(number)
        return str(number)

    results = map_repositories(process, range(5), 1)
    assert next(results) == "0"
    assert 4 not in started
    assert list(results) == ["1", "2", "3", "4"]


def test_split_files(lists: Path) -> None:
    """Held-out files are split off; an unknown name is a KeyError."""
    assert split_files(lists.parent, []) == ([lists], [])
    assert split_files(lists.parent, ["repo"]) == ([], [lists])
    with pytest.raises(KeyError, match="gone"):
        split_files(lists.parent, ["repo", "gone"])


def test_training_and_evaluation_are_disjoint() -> None:
    """No evaluation repository is a training repository; of those that only fit the reranker, two are."""
    lines = (Path(mine_lists.__file__).parent / "list_histories.txt").read_text(encoding="ascii").splitlines()
    training_names = {line.split()[0].partition("/")[2] for line in lines if not line.startswith("#")}
    # A clone's folder may be called by its owner too.
    evaluated_names = {
        name.rpartition("+")[2] for line in pl.read_csv(results.FILE)["history"] for name in line.split(" + ")
    }
    assert len(training_names) == 69
    assert {"attrs", "trio", "ripgrep"} < evaluated_names
    assert not training_names & (
        evaluated_names
        | set(judgments.load_sheets())
        | set(judgments.load_sheets(judgments.DEVELOPMENT_FOLDER))
        | {file.stem for file in learn.SHEETS_FOLDER.glob("*.toml")}
    )
    assert training_names & {file.stem for file in learn.COMMIT_QUERIES_FOLDER.glob("*.toml")} == {
        "moshi",
        "kit",
    }
