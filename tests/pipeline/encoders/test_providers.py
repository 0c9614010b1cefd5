"""What a person asks for becomes what this build can run, or an error that says what to install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.encoders import accelerated, providers
from pipeline.encoders.providers import ProviderUnavailable, check, choose


@pytest.mark.parametrize("wanted", ["cpu", "coreml", "cuda"])
@pytest.mark.parametrize("cuda_devices", [False, True])
def test_who_names_one_gets_it(wanted: str, cuda_devices: bool) -> None:
    """A provider that is named is the one, whatever the machine has."""
    assert choose(wanted, cuda_devices=cuda_devices) == wanted


@pytest.mark.parametrize(
    ("platform", "built", "cuda_devices", "chosen"),
    [
        ("linux", {"cpu"}, False, "cpu"),
        ("linux", {"cpu", "cuda"}, False, "cpu"),
        ("linux", {"cpu"}, True, "cuda"),
        ("darwin", {"cpu", "coreml"}, False, "coreml"),
        ("darwin", {"cpu"}, False, "cpu"),
        ("darwin", {"cpu", "coreml"}, True, "cuda"),
        ("linux", {"cpu", "coreml"}, False, "cpu"),
    ],
)
def test_auto(
    monkeypatch: pytest.MonkeyPatch, platform: str, built: set[str], cuda_devices: bool, chosen: str
) -> None:
    """`auto` is cuda where devices are named, else coreml on a macOS build that has it, else the CPU."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(providers, "built_in", lambda: frozenset(built))
    assert choose("auto", cuda_devices=cuda_devices) == chosen


def test_the_cpu_is_always_there() -> None:
    """Every build runs on the CPU."""
    assert "cpu" in providers.built_in()
    check("cpu")


@pytest.mark.skipif("cuda" in providers.built_in(), reason="this build has it")
def test_a_build_without_it_says_what_to_install() -> None:
    """The error of cuda names the extra, and what else must be done since two packages fill one folder."""
    with pytest.raises(ProviderUnavailable) as refused:
        check("cuda")
    said = str(refused.value)
    assert "built without cuda" in said and "pip install 'history-lineage[cuda]'" in said
    assert "pip uninstall --yes onnxruntime" in said and "--embed-provider cpu" in said


@pytest.mark.skipif("cuda" in providers.built_in(), reason="this build has it")
def test_the_runtime_may_not_fall_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A build that claims a provider and then runs on the CPU is found out, and says nothing of its own."""
    monkeypatch.setattr(providers, "check", lambda _: None)
    model = accelerated.kept(tmp_path)
    with pytest.warns(UserWarning, match="not in available"), pytest.raises(ProviderUnavailable) as refused:
        providers.session("cuda", model, sizes={})
    assert str(refused.value).startswith("ONNX Runtime cannot run the encoder on cuda: ")
    assert capfd.readouterr() == ("", "")
