"""Choice of the execution provider, and errors with installation hints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.encoders import accelerated, providers
from pipeline.encoders.providers import ProviderUnavailable, check_built_in, choose_provider


@pytest.mark.parametrize("requested", ["cpu", "coreml", "cuda"])
@pytest.mark.parametrize("has_cuda_devices", [False, True])
def test_a_named_provider_is_chosen(requested: str, has_cuda_devices: bool) -> None:
    """A provider given by name is chosen with and without CUDA devices."""
    assert choose_provider(requested, has_cuda_devices=has_cuda_devices) == requested


@pytest.mark.parametrize(
    ("platform", "built_in", "has_cuda_devices", "provider"),
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
    monkeypatch: pytest.MonkeyPatch, platform: str, built_in: set[str], has_cuda_devices: bool, provider: str
) -> None:
    """`auto` is cuda if CUDA devices are set, else coreml on a macOS build that has it, else the CPU."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(providers, "list_built_in_providers", lambda: frozenset(built_in))
    assert choose_provider("auto", has_cuda_devices=has_cuda_devices) == provider


def test_the_cpu_is_always_available() -> None:
    """Every build runs on the CPU."""
    assert "cpu" in providers.list_built_in_providers()
    check_built_in("cpu")


@pytest.mark.skipif("cuda" in providers.list_built_in_providers(), reason="this build has it")
def test_the_error_has_an_installation_hint() -> None:
    """The error for cuda names the extra, and how to replace the package that shares its directory."""
    with pytest.raises(ProviderUnavailable) as error:
        check_built_in("cuda")
    text = str(error.value)
    assert "built without cuda" in text and "pip install 'history-lineage[cuda]'" in text
    assert "pip uninstall --yes onnxruntime" in text and "--embed-provider cpu" in text


@pytest.mark.skipif("cuda" in providers.list_built_in_providers(), reason="this build has it")
def test_a_fallback_to_the_cpu_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A build that claims a provider but runs on the CPU raises an error, and the runtime prints nothing."""
    monkeypatch.setattr(providers, "check_built_in", lambda _: None)
    model = accelerated.ensure_fp32_model(tmp_path)
    with pytest.warns(UserWarning, match="not in available"), pytest.raises(ProviderUnavailable) as error:
        providers.create_session("cuda", model, dimensions={})
    assert str(error.value).startswith("ONNX Runtime cannot run the encoder on cuda: ")
    assert capfd.readouterr() == ("", "")
