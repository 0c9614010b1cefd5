"""What a person asks for becomes what this build can run."""

from __future__ import annotations

import pytest

from pipeline.providers import ProviderUnavailable, choose, runtime_names


@pytest.mark.parametrize("wanted", ["auto", "cpu"])
def test_the_cpu_is_always_there(wanted: str) -> None:
    """Without an accelerator, `auto` is the CPU."""
    assert choose(wanted) == "cpu"
    assert runtime_names(choose(wanted)) == ["CPUExecutionProvider"]


def test_another_is_refused_by_name() -> None:
    """A provider this build lacks is refused with those it has."""
    with pytest.raises(ProviderUnavailable) as refused:
        choose("cuda")
    assert str(refused.value) == "This build cannot embed with 'cuda'.\n  Available here: auto, cpu."
