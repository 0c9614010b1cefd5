"""Timings of the phases of an index run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.profile import PROFILE_FIELDS, SUMMARY_PHASES, Profile, load_times, record_times
from tests.pipeline.histories import create_interleaved_repo, run_index


def test_every_phase_is_shown(tmp_path: Path) -> None:
    """Every phase that a run measures is in the `--profile` line. The summary has all phases except the walk."""
    repo = create_interleaved_repo(tmp_path / "repo", rounds=1)
    measured = run_index(repo, tmp_path / "home", skip_vectors=True).profile.seconds
    assert {"text", "diff"} <= measured.keys() <= PROFILE_FIELDS.keys()
    assert {"walk", *SUMMARY_PHASES} == PROFILE_FIELDS.keys()


def test_times_that_cannot_be_recorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If the times cannot be written to their file, there is a warning and no error, because the run has succeeded."""
    record_times(tmp_path / "missing" / "times.json", Profile({"diff": 1.0}))
    assert "The times of this run were not recorded" in caplog.text


@pytest.mark.parametrize("text", ["", "[]", '{"diff": null}', "[" * 200_000])
def test_damaged_times(tmp_path: Path, text: str) -> None:
    """A damaged file of times is replaced."""
    file = tmp_path / "times.json"
    file.write_text(text)
    assert load_times(file) == {}
    record_times(file, Profile({"diff": 1.0}))
    assert load_times(file) == {"diff": 1.0}
