"""What a training run is given and how it goes on, without a network."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.training.loop import Parser, followed


@dataclass
class Steps:
    """So many steps, and the time they take: what a clock would say."""

    most: int
    taken: int = 0

    @property
    def done(self) -> float:
        return self.taken / self.most

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> tuple[int, float]:
        if self.taken == self.most:
            raise StopIteration
        self.taken += 1
        return self.taken - 1, float(self.taken)


def test_a_run_is_kept_as_it_goes(caplog: pytest.LogCaptureFixture) -> None:
    """What is learnt is kept after each quarter of the time and at the end; the mean of the last losses is told."""
    steps = Steps(20)
    kept: list[int] = []
    with caplog.at_level(logging.INFO):
        followed(steps, steps, 10, lambda: kept.append(steps.taken))
    assert kept == [6, 11, 16, 20]
    assert caplog.messages == ["step 10: loss 5.500", "step 20: loss 15.500"]


def test_lists_to_learn_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those named are held out; a name without lists, or nothing left to learn from, is told with what to do."""
    parser = Parser("pipeline.training.train_encoder", None, 1e-4)
    arguments = [str(tmp_path), str(tmp_path / "out"), "--weights", str(tmp_path), "--held-out", "one"]
    given = parser.parse_args(arguments)
    for names, said in (
        ((), "--held-out: no lists of 'one'"),
        (("one",), "`python -m pipeline.training.mine_pairs` makes"),
    ):
        for name in names:
            (tmp_path / f"{name}.npz").touch()
        with pytest.raises(SystemExit):
            parser.files(given)
        assert said in capsys.readouterr().err
    (tmp_path / "two.npz").touch()
    assert parser.files(given) == ([tmp_path / "two.npz"], [tmp_path / "one.npz"])
