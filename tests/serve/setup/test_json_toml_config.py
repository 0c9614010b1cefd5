"""An entry put into a person's JSON or TOML and taken out again: the rest keeps every byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.setup import json_config, toml_config

ENTRY = {"command": "/opt/a b/lineage-mcp", "args": [], "env": {"LINEAGE_HOME": "/h"}}
NAMES = st.sampled_from(["mcpServers", "lineage", "other", "", "ü", 'quo"te', "a\\b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)
STEPS = st.sampled_from([None, 2, 4, "\t", 0])


@given(
    document=DOCUMENTS,
    others=st.none() | st.dictionaries(NAMES, VALUES, min_size=1),
    step=STEPS,
    eol=st.booleans(),
)
def test_json_comes_back(
    document: dict[str, Any], others: dict[str, Any] | None, step: int | str | None, eol: bool
) -> None:
    """Whatever the layout, the entry is there, all else says what it said, and taking it out restores the bytes."""
    document.pop("mcpServers", None)
    if others is not None:
        others.pop("lineage", None)
        document["mcpServers"] = others or {"other": 1}
    text = json.dumps(document, indent=step) + "\n"
    text = text.replace("\n", "\r\n") if eol else text
    added = json_config.with_entry(text, "mcpServers", "lineage", ENTRY)
    expected = {**document, "mcpServers": {**document.get("mcpServers", {}), "lineage": ENTRY}}
    assert json.loads(added) == expected
    assert list(json.loads(added)) == list(expected)
    removed = json_config.without_entry(added, "mcpServers", "lineage")
    assert removed == (text if document else removed) and json.loads(removed) == document
    renewed = json_config.with_entry(added, "mcpServers", "lineage", {"command": "x"})
    assert json.loads(renewed)["mcpServers"]["lineage"] == {"command": "x"}


@pytest.mark.parametrize(
    ("text", "with_it"),
    [
        ("", '{\n  "k": {\n    "n": {\n      "a": [\n        1\n      ]\n    }\n  }\n}\n'),
        ("{}", '{\n  "k": {\n    "n": {\n      "a": [\n        1\n      ]\n    }\n  }\n}'),
        ('{"x": 1.0}', '{"x": 1.0, "k": {"n": {"a": [1]}}}'),
        (
            '{\n    "x": [1, 2],\n    "k": {}\n}\n',
            '{\n    "x": [1, 2],\n    "k": {\n        "n": {\n            "a": [\n'
            "                1\n            ]\n        }\n    }\n}\n",
        ),
        ('{\n\t"k": { "m": 1e5 }\n}', '{\n\t"k": { "m": 1e5, "n": {"a": [1]} }\n}'),
    ],
)
def test_json_is_written_as_the_person_writes(text: str, with_it: str) -> None:
    """The step of indentation, one line or many, numbers as written: all as in the rest of the file."""
    assert json_config.with_entry(text, "k", "n", {"a": [1]}) == with_it


@pytest.mark.parametrize(
    "text", ['{"a": 1, // why\n"b": 2}', '{"a": 1,}', "{'a': 1}", "\ufeff{}", "nonsense"]
)
def test_what_is_not_json_is_not_read(text: str) -> None:
    """Comments, trailing commas and the like are nothing we would guess at."""
    with pytest.raises(ValueError, match=r"."):
        json_config.read(text)


TOMLS = [
    "",
    'model = "x" # why\n',
    'model = "x"',
    "# first\n[a]\nb = 1\n",
    "a = 1\r\n[b]\r\nc = 2\r\n",
    '[mcp_servers.other]\ncommand = "y"\n\n[z]\nq = 1979-05-27T07:32:00Z\n',
    "[mcp_servers.a]\ncommand = '1'\n[z]\nq=1\n[mcp_servers.b]\ncommand='2'\n",
    'mcp_servers = { other = { command = "y" } } # inline\n',
    'mcp_servers.other.command = "y"\n',
    '[mcp_servers]\n\n[[list]]\nt = """\n[mcp_servers.lineage]\n"""\n',
]


@pytest.mark.parametrize("text", TOMLS)
@pytest.mark.parametrize("entry", [ENTRY, {"command": "/x", "args": ["a"]}])
def test_toml_comes_back(text: str, entry: dict[str, Any]) -> None:
    """The table is there, all else says what it said, and taking it out restores the bytes."""
    added = toml_config.with_entry(text, "mcp_servers", "lineage", entry)
    before = toml_config.read(text)
    assert toml_config.read(added) == before | {
        "mcp_servers": {**before.get("mcp_servers", {}), "lineage": entry}
    }
    assert toml_config.without_entry(added, "mcp_servers", "lineage") == text


def test_toml_comments_stay() -> None:
    """What a person wrote around and into the table stays, but for what changes and what is in the table itself."""
    table = '[mcp_servers.lineage] # mine\ncommand = "/old" # old\nstartup_timeout_sec = 9\n'
    text = f"# top\n{table}\n# next\n[z]\nq = 1\n"
    entry = {"command": "/new", "startup_timeout_sec": 9, "args": []}
    renewed = toml_config.with_entry(text, "mcp_servers", "lineage", entry)
    for kept in ("# top\n", "] # mine\n", "startup_timeout_sec = 9\n", "\n# next\n[z]\nq = 1\n"):
        assert kept in renewed
    assert toml_config.without_entry(renewed, "mcp_servers", "lineage") == "# top\n\n# next\n[z]\nq = 1\n"
