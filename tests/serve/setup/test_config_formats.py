"""Edits of JSON and TOML files: adding and removing an entry keeps every other byte."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.setup.config_formats import JSON, TOML

ENTRY = {"command": "/opt/a b/lineage-mcp", "args": [], "env": {"LINEAGE_HOME": "/h"}}
NAMES = st.sampled_from(["mcpServers", "lineage", "other", "", "ü", 'quo"te', "a\\b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)
INDENTS = st.sampled_from([None, 2, 4, "\t", 0])


@given(
    document=DOCUMENTS,
    others=st.none() | st.dictionaries(NAMES, VALUES, min_size=1),
    indent=INDENTS,
    crlf=st.booleans(),
)
def test_json_edit_and_removal_restore_the_text(
    document: dict[str, Any], others: dict[str, Any] | None, indent: int | str | None, crlf: bool
) -> None:
    """With any layout the entry is added, the rest keeps its meaning, and removal restores the bytes."""
    document.pop("mcpServers", None)
    if others is not None:
        others.pop("lineage", None)
        document["mcpServers"] = others or {"other": 1}
    text = json.dumps(document, indent=indent) + "\n"
    text = text.replace("\n", "\r\n") if crlf else text
    added_text = JSON.set_entry(text, "mcpServers", "lineage", ENTRY)
    expected = {**document, "mcpServers": {**document.get("mcpServers", {}), "lineage": ENTRY}}
    assert json.loads(added_text) == expected
    assert list(json.loads(added_text)) == list(expected)
    removed_text = JSON.remove_entry(added_text, "mcpServers", "lineage")
    assert removed_text == (text if document else removed_text) and json.loads(removed_text) == document
    updated_text = JSON.set_entry(added_text, "mcpServers", "lineage", {"command": "x"})
    assert json.loads(updated_text)["mcpServers"]["lineage"] == {"command": "x"}


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_json_edit_keeps_the_layout(text: str, expected: str) -> None:
    """Indentation, line breaks and numbers stay as in the rest of the file."""
    assert JSON.set_entry(text, "k", "n", {"a": [1]}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{\n  "k": {\n    "m": 1 // the "m"\n    // last\n  }\n}\n',
            '{\n  "k": {\n    "m": 1, // the "m"\n    "n": {"a": 1}\n    // last\n  }\n}\n',
        ),
        (
            '{\n  "k": {\n    "m": 1, /* one,\n two */\n  },\n}\n',
            '{\n  "k": {\n    "m": 1, /* one,\n two */\n    "n": {"a": 1},\n  },\n}\n',
        ),
        ('\ufeff{"k": {"m": "// no comment",}}', '\ufeff{"k": {"m": "// no comment", "n": {"a": 1},}}'),
        (
            '// mine\n{\n  "k": {\n    // "m": 1,\n  }\n}\n',
            '// mine\n{\n  "k": {\n    "n": {"a": 1}\n    // "m": 1,\n  }\n}\n',
        ),
    ],
)
def test_comments_and_trailing_commas_stay(text: str, expected: str) -> None:
    """Comments, trailing commas and a byte order mark stay where they are, also after the removal of the entry."""
    added_text = JSON.set_entry(text, "k", "n", {"a": 1})
    assert "".join(added_text.split()) == "".join(expected.split())
    assert JSON.parse(added_text) == {"k": {**JSON.parse(text)["k"], "n": {"a": 1}}}
    removed_text = JSON.remove_entry(added_text, "k", "n")
    assert "".join(removed_text.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"k": {\n  "m": 1,\n  // about n\n  "n": {},\n  "o": 2\n}}',
            '{"k": {\n  "m": 1,\n  // about n\n  "o": 2\n}}',
        ),
        (
            '{"k": {\n  "n": {}, // of n\n  // about o\n  "o": 2\n}}',
            '{"k": {\n  // of n\n  // about o\n  "o": 2\n}}',
        ),
        ('{"k": {\n  "m": 1,\n  // about n\n  "n": {}\n}}', '{"k": {\n  "m": 1\n  // about n\n}}'),
        ('{"k": {"m": 1, // of m\n  "n": {}}}', '{"k": {"m": 1 // of m\n  }}'),
        ('{"k": {"n": {} /* of n */,}}', '{"k": { /* of n */}}'),
        ('{"k": {"n": {} // of n\n  ,\n}}', '{"k": { // of n\n  \n}}'),
        ('{"k": {"n": {} /* of n */, "o": 2}}', '{"k": {/* of n */ "o": 2}}'),
    ],
)
def test_removal_keeps_comments(text: str, expected: str) -> None:
    """Comments before and after a removed entry stay, and no separator gets into a comment."""
    assert JSON.remove_entry(text, "k", "n") == expected


@pytest.mark.parametrize("entries", ['"n": {},', '"n": {"a": 1 /* in the entry */}', '\n"n": {}\n,'])
def test_removal_of_the_only_entry_removes_its_object(entries: str) -> None:
    """The emptied object is removed too, even with a trailing comma after the entry or a comment in the entry."""
    assert JSON.remove_entry(f'{{"a": 1, "k": {{{entries}}}}}', "k", "n") == '{"a": 1}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"k": {"n": 1, "m": 2, "n": 3}}', '{"k": {"n": 1, "m": 2}}'),
        ('{"k": {"n": 1, "n": 3}}', '{"k": {"n": 1}}'),
    ],
)
def test_removal_of_a_repeated_name(text: str, expected: str) -> None:
    """Of several entries with the same name, the last one is removed, because it is the one in force."""
    assert JSON.remove_entry(text, "k", "n") == expected


def test_comment_before_the_first_name_is_not_indentation() -> None:
    """New lines are indented like the first line. A comment before its first name does not count as indentation."""
    added_text = JSON.set_entry('{\n  /* one */ "a": 1\n}', "k", "n", 1)
    assert added_text == '{\n  /* one */ "a": 1,\n  "k": {\n    "n": 1\n  }\n}'


# Space between tokens. The numbers are in comments only, so that they show which comments are kept.
SPACES = st.lists(
    st.sampled_from([" ", "\n", "\r\n", "\t", "/* #1, } */", "/* #2\n*/", "// #3 { ,\n"]), max_size=4
).map("".join)


@st.composite
def write_objects(draw: st.DrawFn, members: dict[str, st.SearchStrategy[str]]) -> str:
    """Return texts of objects with some of the members in any order, with any space, comments and trailing comma."""
    names = draw(st.lists(st.sampled_from(sorted(members)), unique=True))
    texts = [f'{draw(SPACES)}"{name}": {draw(members[name])}{draw(SPACES)}' for name in names]
    trailing_comma = draw(st.sampled_from(["", ","])) if names else ""
    return f"{{{','.join(texts)}{trailing_comma}{draw(SPACES)}}}"


JSON_VALUES = st.sampled_from(["1", '"// }, \\" /*"', "{}", '[1, {"a": 2}]'])
SERVER_OBJECTS = write_objects({"m": JSON_VALUES, "n": JSON_VALUES, "o": JSON_VALUES})


@given(text=write_objects({"a": JSON_VALUES, "b": JSON_VALUES, "k": SERVER_OBJECTS}))
def test_edits_of_any_json_with_comments(text: str) -> None:
    """After each edit the text is valid, and other members and all comments stay."""
    document, comments = JSON.parse(text), re.findall(r"#\d", text)
    added_text = JSON.set_entry(text, "k", "n", {"a": 1})
    others = {name: value for name, value in document.get("k", {}).items() if name != "n"}
    assert JSON.parse(added_text) == {**document, "k": {**others, "n": {"a": 1}}}
    assert re.findall(r"#\d", added_text) == comments
    removed_text = JSON.remove_entry(added_text, "k", "n")
    assert {"k": {}} | JSON.parse(removed_text) == document | {"k": others}
    assert re.findall(r"#\d", removed_text) == comments


def test_entry_in_a_file_with_a_comment_only() -> None:
    """The entry follows the comment, on a line of its own."""
    assert JSON.parse(JSON.set_entry("// mine", "k", "n", {"a": 1})) == {"k": {"n": {"a": 1}}}


@pytest.mark.parametrize("text", ["{'a': 1}", '{"a": 1 /* open}', '{"a": 1,,}', "nonsense"])
def test_invalid_json_is_an_error(text: str) -> None:
    """Except for comments and single trailing commas, text that is not valid JSON raises ValueError."""
    with pytest.raises(ValueError, match=r"."):
        JSON.parse(text)


TOML_TEXTS = [
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


@pytest.mark.parametrize("text", TOML_TEXTS)
@pytest.mark.parametrize("entry", [ENTRY, {"command": "/x", "args": ["a"]}])
def test_toml_edit_and_removal_restore_the_text(text: str, entry: dict[str, Any]) -> None:
    """The table is added, the rest keeps its meaning, and removal restores the bytes."""
    added_text = TOML.set_entry(text, "mcp_servers", "lineage", entry)
    before = TOML.parse(text)
    assert TOML.parse(added_text) == before | {
        "mcp_servers": {**before.get("mcp_servers", {}), "lineage": entry}
    }
    assert TOML.remove_entry(added_text, "mcp_servers", "lineage") == text


@pytest.mark.parametrize("name", ["a b", "a'b", 'a"b', "a\\b", "ä.b"])
def test_toml_entry_with_a_quoted_name(name: str) -> None:
    """Removal also restores the bytes if the table's name needs quotation marks or escapes."""
    text = "x = 1\n"
    added_text = TOML.set_entry(text, "mcp_servers", name, ENTRY)
    assert TOML.parse(added_text) == {"x": 1, "mcp_servers": {name: ENTRY}}
    assert TOML.remove_entry(added_text, "mcp_servers", name) == text


def test_toml_comments_stay() -> None:
    """Comments and fields around and in the table stay; removal deletes only the table."""
    table = '[mcp_servers.lineage] # mine\ncommand = "/old" # old\nstartup_timeout_sec = 9\n'
    text = f"# top\n{table}\n# next\n[z]\nq = 1\n"
    entry = {"command": "/new", "startup_timeout_sec": 9, "args": []}
    updated_text = TOML.set_entry(text, "mcp_servers", "lineage", entry)
    for part in ("# top\n", "] # mine\n", "startup_timeout_sec = 9\n", "\n# next\n[z]\nq = 1\n"):
        assert part in updated_text
    assert TOML.remove_entry(updated_text, "mcp_servers", "lineage") == "# top\n\n# next\n[z]\nq = 1\n"
