"""Arguments, checkpoints and log of a training run, without a network."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pipeline.training.list_training import Clock, TrainingArgumentParser, train_with_checkpoints


class Steps(Clock):
    """Training steps that also serve as their clock. The time is over after 20 steps."""

    def __init__(self, step_count: int) -> None:
        super().__init__(0)
        self.step_count = step_count
        self.done_count = 0

    @property
    def elapsed_share(self) -> float:
        return self.done_count / 20

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> tuple[int, float]:
        if self.done_count == self.step_count:
            raise StopIteration
        self.done_count += 1
        return self.done_count - 1, float(self.done_count)


@pytest.mark.parametrize("step_count", [20, 21])
def test_checkpoints_and_log(step_count: int, caplog: pytest.LogCaptureFixture) -> None:
    """Checkpoints are saved after each quarter of the time and at the end; the mean loss is logged."""
    steps = Steps(step_count)
    checkpoint_steps: list[int] = []
    with caplog.at_level(logging.INFO):
        train_with_checkpoints(steps, steps, 10, lambda: checkpoint_steps.append(steps.done_count))
    assert checkpoint_steps == [6, 11, 16, step_count]
    assert caplog.messages == ["step 10: loss 5.500", "step 20: loss 15.500"]


def test_select_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files named by `--held-out` are split off; an unknown name or an empty training set exits with a hint."""
    parser = TrainingArgumentParser(None)
    arguments = [
        "encoder",
        str(tmp_path),
        str(tmp_path / "out"),
        "--weights",
        str(tmp_path),
        "--held-out",
        "one",
    ]
    parsed = parser.parse_args(arguments)
    for names, message in (
        ((), "has no lists of 'one'"),
        (("one",), "Run `python -m pipeline.training.mine_lists` first"),
    ):
        for name in names:
            (tmp_path / f"{name}.npz").touch()
        with pytest.raises(SystemExit):
            parser.select_files(parsed)
        assert message in capsys.readouterr().err
    (tmp_path / "two.npz").touch()
    assert parser.select_files(parsed) == ([tmp_path / "two.npz"], [tmp_path / "one.npz"])


def test_too_few_lists(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists that do not fill a batch end the command with a hint; the training would wait for one forever."""
    parser = TrainingArgumentParser(None)
    parser.require_batch(24, 24)
    with pytest.raises(SystemExit):
        parser.require_batch(23, 24)
    assert "23 lists do not fill a batch of 24. Mine a longer history" in capsys.readouterr().err
