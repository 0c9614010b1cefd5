"""Evolution of lines on small real repositories: each step, its provenance, leads and bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitTimeout
from pipeline.git.objects import Commit
from pipeline.git.repository import Repository, open_repository
from serve.explain import changed_lines, line_evolution, line_search
from serve.explain.blame import RevisionBlamer
from serve.explain.changed_lines import MAX_BLOCK_LINES, UnsourcedLine
from serve.explain.explain_change import Explainer
from serve.explain.line_search import LineSearcher
from serve.explain.line_similarity import MAX_CANDIDATES
from serve.explain.line_sources import LineSource, SourceFinder
from serve.explain_types import EvolutionStep, ExplainAnswer, ExplainDetails, ExplainRequest
from serve.repositories import locate_index
from tests.repos import Repo
from tests.serve.explain.helpers import explain
from tests.serve.sample_index import build_index

CONNECT = """\
def connect(address, retries):
    socket = open_socket(address)
    socket.set_timeout(retries * DELAY)
    return socket
"""
PARSE = """\
def parse_header(text):
    name, _, value = text.partition(":")
    return name.strip().lower(), value.strip()
"""
TIMEOUT = "    socket.set_timeout(retries * DELAY)\n"
OTHER = "import sys\n\n\ndef main():\n    print_usage(sys.argv)\n    sys.exit(2)\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A file whose third line is about a timeout; the commit `Add connect` introduced it."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("net.py", OTHER, "Start")
    repo.commit_file("net.py", CONNECT + OTHER, "Add connect")
    return repo


def trace(repo: Repo, home: Path, file: str, start: int, end: int = 0) -> ExplainDetails:
    return explain(repo, home, file, start, end or start, include_evolution=True).meta.explain


def list_steps(details: ExplainDetails) -> list[tuple[str, str, str]]:
    """Return step, subject and provenance of each commit, newest first."""
    return [(step.step, step.commit_message, step.provenance) for step in details.evolution]


def test_introduced_line_has_no_evolution(repo: Repo, home: Path) -> None:
    """The commit of the hit introduced the line, so there are no earlier commits."""
    details = trace(repo, home, "net.py", 3)
    assert details.evolution == ()
    assert details.leads == ()


def test_modified_line(repo: Repo, home: Path) -> None:
    """An edited line leads to the commits that wrote it before, each with its text, newest first."""
    repo.commit_file(
        "net.py", CONNECT.replace("retries * DELAY", "retries * DELAY, True") + OTHER, "Force it"
    )
    repo.commit_file("net.py", CONNECT.replace("retries * DELAY", "LIMIT, True") + OTHER, "Limit it")
    details = trace(repo, home, "net.py", 3)
    assert list_steps(details) == [
        ("modified", "Force it", "INFERRED"),
        ("introduced", "Add connect", "INFERRED"),
    ]
    assert details.evolution[1] == EvolutionStep(
        commit_sha=repo.git("rev-parse", "HEAD~2"),
        commit_message="Add connect",
        commit_author="Ada Lovelace",
        commit_date="2020-01-01T14:00:00Z",
        file_path="net.py",
        lines=(3,),
        step="introduced",
        text=TIMEOUT.strip(),
        provenance="INFERRED",
    )


def test_reformatted_line_is_exact(repo: Repo, home: Path) -> None:
    """A change of white space alone is an exact link."""
    repo.commit_file("net.py", CONNECT.replace("retries * DELAY", "retries*DELAY") + OTHER, "Space")
    repo.commit_file("net.py", CONNECT.replace("    ", "\t") + OTHER, "Indent with tabs")
    assert list_steps(trace(repo, home, "net.py", 3)) == [
        ("reformatted", "Space", "EXACT"),
        ("introduced", "Add connect", "EXACT"),
    ]


def test_provenance_is_cumulative(repo: Repo, home: Path) -> None:
    """After an inferred link every older step is inferred, also if its own link is exact."""
    repo.commit_file("net.py", CONNECT.replace("    ", "  ") + OTHER, "Indent")
    repo.commit_file("net.py", CONNECT.replace("    ", "  ").replace("DELAY", "PAUSE") + OTHER, "Rename it")
    assert list_steps(trace(repo, home, "net.py", 3)) == [
        ("reformatted", "Indent", "INFERRED"),
        ("introduced", "Add connect", "INFERRED"),
    ]


def test_line_moved_within_its_file(repo: Repo, home: Path) -> None:
    """A function that moved to the end of its file keeps its history, and its lines are exact."""
    body = "".join(f"value{number} = compute{number}()\n" for number in range(20))
    repo.commit_file("net.py", CONNECT + body, "Add values")
    repo.commit_file("net.py", body + CONNECT, "Move it down")
    repo.commit_file("net.py", body + CONNECT.replace("    ", "  "), "Indent")
    assert list_steps(trace(repo, home, "net.py", 23)) == [
        ("moved", "Move it down", "EXACT"),
        ("introduced", "Add connect", "EXACT"),
    ]


def test_line_moved_across_files(repo: Repo, home: Path) -> None:
    """A function that moved to another file with its neighbours is an exact link."""
    repo.write("net.py", OTHER)
    repo.commit_file("sockets.py", CONNECT, "Extract sockets")
    repo.commit_file("sockets.py", CONNECT.replace("    ", "  "), "Indent")
    details = trace(repo, home, "sockets.py", 3)
    assert list_steps(details) == [
        ("moved", "Extract sockets", "EXACT"),
        ("introduced", "Add connect", "EXACT"),
    ]
    assert [step.file_path for step in details.evolution] == ["sockets.py", "net.py"]


def test_renamed_file(repo: Repo, home: Path) -> None:
    """A new file that replaces one of the same name in another language is a rename, at any similarity."""
    body = "".join(f"let value{n} = compute{n}();\n" for n in range(20))
    repo.write("net.ts", body + CONNECT + body.replace("compute", "derive"))
    repo.remove("net.py")
    repo.commit("Convert")
    repo.commit_file("net.ts", body + CONNECT.replace("    ", "  "), "Indent")
    assert list_steps(trace(repo, home, "net.ts", 23)) == [
        ("renamed", "Convert", "EXACT"),
        ("introduced", "Add connect", "EXACT"),
    ]


def test_copied_line(repo: Repo, home: Path) -> None:
    """A function that was copied, so that the original stays, is an inferred link."""
    note = "# The delay grows with retries and delays.\n"
    repo.commit_file("net.py", CONNECT + note + OTHER, "Explain it")
    repo.commit_file("sockets.py", CONNECT + note, "Copy connect")
    assert list_steps(trace(repo, home, "sockets.py", 3)) == [("introduced", "Add connect", "INFERRED")]
    assert trace(repo, home, "sockets.py", 5).evolution == ()  # a comment, which is mostly a license


def test_repeated_line_is_not_copied(repo: Repo, home: Path) -> None:
    """A line that the parent has in many files, such as a license, has no certain source."""
    for number in range(line_search.MAX_EQUAL_LINES):
        repo.commit_file(f"copy{number}.py", CONNECT, "Copy connect")
    repo.commit_file("sockets.py", CONNECT, "Copy it again")
    assert trace(repo, home, "sockets.py", 3).evolution == ()


def test_restored_line(repo: Repo, home: Path) -> None:
    """With an index, a line that an earlier commit removed is a restored one; without one, a note says so."""
    repo.commit_file("net.py", OTHER, "Remove connect")
    repo.commit_file("other.py", OTHER, "Aside")
    repo.commit_file("net.py", CONNECT + OTHER, "Restore connect")
    repo.commit_file("net.py", CONNECT.replace("    ", "  ") + OTHER, "Indent")
    assert list_steps(trace(repo, home, "net.py", 3)) == [("introduced", "Restore connect", "EXACT")]
    limitation = trace(repo, home, "net.py", 3).evolution_limitation
    assert limitation == (
        "There is no index, so a line that was removed and later restored counts as introduced, "
        "and some possible earlier commits may be missing. Run `lineage index`."
    )
    build_index(repo, home)
    details = trace(repo, home, "net.py", 3)
    assert list_steps(details) == [
        ("restored", "Restore connect", "EXACT"),
        ("introduced", "Add connect", "INFERRED"),
    ]
    assert details.evolution_limitation is None


def test_unreadable_index(repo: Repo, home: Path) -> None:
    """If the index cannot be read, the note on restored lines says so and does not ask for a new index."""
    build_index(repo, home)
    locate_index(home, open_repository(repo.path)).database.write_bytes(b"nonsense" * 1000)
    limitation = trace(repo, home, "net.py", 3).evolution_limitation
    assert limitation == (
        "The index cannot be read, so a line that was removed and later restored counts as introduced, "
        "and some possible earlier commits may be missing."
    )


def test_unreadable_objects_of_lines_keep_the_others(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the sources of some restored lines cannot be read, the other lines are still followed."""
    repo.commit_file("net.py", OTHER, "Remove connect")
    repo.commit_file("net.py", CONNECT + OTHER, "Restore connect")
    repo.commit_file("net.py", CONNECT.replace("    ", "  ") + OTHER, "Indent")
    build_index(repo, home)
    find_removed = LineSearcher.find_removed
    calls: list[UnsourcedLine] = []

    def fail_twice(searcher: LineSearcher, line: UnsourcedLine) -> LineSource | None:
        calls.append(line)
        if len(calls) <= 2:
            raise UnreadableObject("f" * 40, "missing")
        return find_removed(searcher, line)

    monkeypatch.setattr(LineSearcher, "find_removed", fail_twice)
    details = trace(repo, home, "net.py", 1, 3)
    assert len(calls) >= 3
    assert ("introduced", "Add connect", "INFERRED") in list_steps(details)
    assert details.evolution_limitation == "Some earlier commits could not be read."


def test_line_that_the_file_still_has_is_not_restored(repo: Repo, home: Path) -> None:
    """A line that was removed in one place is not restored in another, while a third place has it."""
    both = CONNECT + CONNECT.replace("connect", "bind")
    all_three = both + CONNECT.replace("connect", "listen")
    repo.commit_file("net.py", all_three + OTHER, "Add bind and listen")
    repo.commit_file("net.py", both + OTHER, "Remove listen")
    repo.commit_file("net.py", all_three + OTHER, "Add listen again")
    build_index(repo, home)
    assert trace(repo, home, "net.py", 11).evolution == ()


def test_restored_line_needs_the_lines_around(repo: Repo, home: Path) -> None:
    """A line of a new file that another file had once, between other lines, is not a restored one."""
    repo.commit_file("net.py", OTHER, "Remove connect")
    repo.commit_file("clock.py", PARSE + TIMEOUT + PARSE, "Add a clock")
    build_index(repo, home)
    assert trace(repo, home, "clock.py", 4).evolution == ()


def test_short_line_is_not_restored(repo: Repo, home: Path) -> None:
    """A short line that another place had before is new, because it recurs by chance."""
    repo.commit_file("net.py", CONNECT.replace("    return socket\n", "") + OTHER, "Remove")
    repo.commit_file("net.py", CONNECT + OTHER, "Add again")
    build_index(repo, home)
    assert trace(repo, home, "net.py", 4).evolution == ()


def test_claimed_line_is_no_source(repo: Repo, home: Path) -> None:
    """A removed line that the commit adds again elsewhere became no other line."""
    added = TIMEOUT.replace("set_timeout", "set_read_timeout")
    content = CONNECT.replace(TIMEOUT, added) + OTHER + PARSE + TIMEOUT
    repo.commit_file("net.py", content, "Move the timeout, add another")
    assert trace(repo, home, "net.py", 3).evolution == ()


def test_blank_lines_do_not_divide_replaced_code(repo: Repo, home: Path) -> None:
    """In replaced code the most similar line is the source, also beyond a blank line that did not change."""
    old = "def respond(value):\n    value, status_or_headers, headers = value + (None,) * 3\n\n"
    old += "    headers, status_or_headers = status_or_headers, None\n\n    return headers\n"
    new = "def respond(value):\n    check_length(value)\n\n    value, status, headers = value\n\n    return headers\n"
    repo.commit_file("respond.py", old, "Respond")
    repo.commit_file("respond.py", new, "Unpack")
    (step,) = trace(repo, home, "respond.py", 4).evolution
    assert step.text == "value, status_or_headers, headers = value + (None,) * 3"


def test_one_of_several_equal_lines_continues_a_line(repo: Repo, home: Path) -> None:
    """Of two added lines of equal text, the one with the same neighbours continues the removed line."""
    early_return = "    if not is_colored(stream):\n        stream.write_line(buffer)\n        return\n"
    loop = "    end_color(stream)\n    stream.write_line(buffer)\n    reset_position(stream)\n"
    repo.commit_file("print.py", f"def print_match(stream, buffer):\n{loop}{OTHER}", "Print")
    added = (
        "def write_colored(stream, buffer):\n"
        + early_return
        + "    for _ in buffer:\n"
        + loop.replace("    ", "\t")
    )
    repo.commit_file("print.py", f"{OTHER}{added}", "Return early")
    lines = (OTHER + added).splitlines()
    first, second = (number for number, line in enumerate(lines, 1) if "write_line" in line)
    assert list_steps(trace(repo, home, "print.py", first)) == []
    assert [step for step, *_ in list_steps(trace(repo, home, "print.py", second))] == ["introduced"]


@pytest.mark.parametrize("is_unique", [True, False])
def test_unique_literal_moves(repo: Repo, home: Path, is_unique: bool) -> None:
    """A line moves without similar neighbours if one removed and one added line of the commit have its literal."""
    getter = (
        "    get router() { self.router.strict = self.enabled('strict routing');\n    return self.router }\n"
    )
    repo.write("router.js", OTHER + ("" if is_unique else "  log('strict routing');\n"))
    repo.commit_file("app.js", OTHER + getter, "Define a getter")
    repo.write("router.js", OTHER)
    repo.commit_file(
        "app.js", "create(new Router({\n  strict: self.enabled('strict routing')\n}));\n" + OTHER, "Create it"
    )
    subjects = [subject for _, subject, _ in list_steps(trace(repo, home, "app.js", 2))]
    assert subjects == (["Define a getter"] if is_unique else [])


def test_moved_line_has_no_better_rival(repo: Repo, home: Path) -> None:
    """A line is no source of a similar one elsewhere if another added line of its file is clearly more similar."""
    check, neighbours = (
        "    check_false(end_range.is_tracked())\n",
        ("    end_range = find_end()\n", "    start = begin()\n"),
    )
    old = f"def test_end():\n{neighbours[0]}{check}{neighbours[1]}{OTHER}"
    edited, similar = check.replace("false", "true"), "    check_true(end_range.is_implicit())\n"
    new = f"def test_end():\n{neighbours[0]}{edited}{neighbours[1]}{OTHER}"
    new += f"\n\ndef test_implicit_end():\n{neighbours[0]}{similar}{neighbours[1]}"
    repo.commit_file("ranges.py", old, "Check the end")
    repo.commit_file("ranges.py", new, "Track implicit ends")
    number = 1 + new.splitlines().index(similar.rstrip())
    assert trace(repo, home, "ranges.py", number).evolution == ()


@pytest.mark.parametrize("new_name", ["test_record.py", "test_entry.py"])
def test_successor_in_place_is_preferred(repo: Repo, home: Path, new_name: str) -> None:
    """A line that was edited in place, also of a renamed file, is not the source of one elsewhere as similar to it."""
    check, neighbours = (
        "    check(is_own(parsed, PROTO)).to_be(true)\n",
        ("    parsed = parse(text)\n", "    finish()\n"),
    )
    old = f"def test_record():\n{neighbours[0]}{check}{neighbours[1]}"
    new = old.replace("true", "false")
    repo.commit_file("test_record.py", old, "Test records")
    repo.remove("test_record.py")
    repo.write(new_name, new)
    repo.commit_file("test_intersection.py", new.replace("record", "intersection"), "Strip it")
    assert trace(repo, home, "test_intersection.py", 3).evolution == ()


def test_equal_lines_are_paired_by_their_neighbours(repo: Repo, home: Path) -> None:
    """In code that is formatted anew, a line continues the equal one between the same lines, not that of its rank."""

    def join(*calls: str) -> str:
        return "".join(f'  define("{call}")\n    .add_modifiers(PUBLIC, OVERRIDE)\n' for call in calls)

    repo.commit_file("types.py", join("fold", "equals"), "Define two")
    repo.commit_file("types.py", join("fold", "render", "equals"), "Define render")
    new = '    define("fold").add_modifiers(PUBLIC, OVERRIDE)\n' + join("render", "equals").replace(
        "  ", "    "
    )
    repo.commit_file("types.py", new, "Format")
    repo.commit_file("types.py", new.replace("    ", "\t"), "Use tabs")
    assert list_steps(trace(repo, home, "types.py", 3))[-1][:2] == ("introduced", "Define render")


@pytest.mark.parametrize(
    ("new", "steps"),
    [
        ("    with self._conflict_detector:\n", 1),
        ("    with self._conflict_detector:\n        pass\n", 0),
        ("    check_state(now())\n", 0),
    ],
)
def test_only_line_of_a_block(repo: Repo, home: Path, new: str, steps: int) -> None:
    """A line that replaces exactly one line is its edit if most of the tokens are the same, also common ones."""
    repo.commit_file("memory.py", "def put(self):\n    with self._lock:\n        send(self)\n", "Add put")
    repo.commit_file("memory.py", f"def put(self):\n{new}        send(self)\n", "Detect conflicts")
    assert len(trace(repo, home, "memory.py", 2).evolution) == steps


def test_split_line(repo: Repo, home: Path) -> None:
    """Each part of a line that was split over several lines comes from this line."""
    head = "def connect(\n    address: str,\n    retries: int,\n    *,\n    is_secure: bool = True,\n) -> Socket:\n"
    repo.commit_file(
        "net.py", CONNECT.replace("def connect(address, retries):\n", head) + OTHER, "Annotate it"
    )
    for number in (1, 2, 3):
        (step,) = trace(repo, home, "net.py", number).evolution
        assert step.text == "def connect(address, retries):"
    assert trace(repo, home, "net.py", 5).evolution == ()


def test_beginning_of_a_line_elsewhere_is_no_part_of_it(repo: Repo, home: Path) -> None:
    """A line that begins like a removed one is new if the rest of that line stays together elsewhere."""
    old = "class Peer:\n    def close(self):\n        self._waiting = get_loop().add_timeout(now() + 5, self._abort)\n"
    new = (
        "class Peer:\n    def close(self):\n        if self.is_closed():\n            self._waiting = None\n"
    )
    new += "            return\n        self.say_goodbye()\n        flush()\n        log_state()\n"
    new += "        self._waiting = self.loop.add_timeout(\n            now() + 5, self._abort)\n"
    repo.commit_file("peer.py", old, "Close")
    repo.commit_file("peer.py", new, "Wait")
    assert trace(repo, home, "peer.py", 4).evolution == ()


def test_wrapped_prose(repo: Repo, home: Path) -> None:
    """A line of a paragraph that was wrapped anew comes from the line that has most of its words."""
    old = (
        "Every request opens a connection to the nearest server.\n"
        "Idle connections close after a minute of silence, and are counted as errors.\n"
    )
    new = (
        "Every request opens a connection to\nthe nearest server. Idle connections close after\n"
        "a minute of silence, and are counted as errors.\n"
    )
    repo.commit_file("guide.md", old, "Explain connections")
    repo.commit_file("guide.md", new, "Wrap it")
    texts = [trace(repo, home, "guide.md", number).evolution[0].text for number in (1, 2, 3)]
    assert texts == [old.splitlines()[number] for number in (0, 1, 1)]


def test_lines_edited_in_place_do_not_change_places(repo: Repo, home: Path) -> None:
    """A line that becomes equal to the former line of another file, which is edited too, comes from its own place."""
    body = (
        "def send(shards):\n    shards: dict[str, list[KIND]] = collect(shards)\n    return flush(shards)\n"
    )
    for name, kind in (("disk.py", "Shard"), ("comms.py", "bytes")):
        repo.write(name, body.replace("KIND", kind))
    repo.commit("Send shards")
    for name, kind in (("disk.py", "bytes"), ("comms.py", "Shard")):
        repo.write(name, body.replace("KIND", kind))
    repo.commit("Exchange the kinds")
    (step,) = trace(repo, home, "disk.py", 2).evolution
    assert (step.file_path, step.text) == ("disk.py", "shards: dict[str, list[Shard]] = collect(shards)")


@pytest.mark.parametrize("is_repeated", [False, True])
def test_repeated_line_does_not_move_between_files(repo: Repo, home: Path, is_repeated: bool) -> None:
    """A line that a commit removes from several files did not move to a new one, unless the lines around it did."""
    line = "use std::cell::UnsafeCell;\n"
    neighbours = "use std::fmt::Debug;\n"
    names = ["worker.rs", "queue.rs"] if is_repeated else ["worker.rs"]
    for name in names:
        repo.write(name, neighbours + line + f"fn {name.partition('.')[0]}() {{}}\n")
    repo.commit("Start")
    for name in names:
        repo.write(name, f"fn {name.partition('.')[0]}() {{}}\n")
    new_neighbours = neighbours.replace("Debug", "Display")
    repo.commit_file("scope.rs", f"{new_neighbours}{line}struct Scope {{}}\n", "Add a scope")
    found = trace(repo, home, "scope.rs", 2).evolution
    assert [step.commit_message for step in found] == ([] if is_repeated else ["Start"])


def test_move_to_another_language_is_not_edited(repo: Repo, home: Path) -> None:
    """A similar line that was removed from a file with another extension is not the source of an edited line."""
    main = "\nif __name__ == '__main__':\n"
    repo.commit_file("guide.rst", f"Write::\n{main}    asyncio.run(amain())\n", "Explain")
    repo.commit_file("demo.py", f"def serve():\n    pass\n{main}    main()\n", "Add a demo")
    repo.write("guide.rst", "Write it.\n")
    repo.commit_file("demo.py", f"def serve():\n    pass\n{main}    asyncio.run(main())\n", "Use asyncio")
    assert list_steps(trace(repo, home, "demo.py", 5)) == [("introduced", "Add a demo", "INFERRED")]


def test_line_of_a_long_converted_file(repo: Repo, home: Path) -> None:
    """In a long file that was converted to another language, a line is found by its words, wherever it stands."""
    loop = "for (int offset = 0; offset <= encodedQuery.length(); ) {"
    filler = [f"void method{number}() {{ call{number}(); }}" for number in range(MAX_BLOCK_LINES + 50)]
    repo.commit_file("Url.java", "\n".join([loop, *filler]) + "\n", "Parse")
    repo.remove("Url.java")
    lines = [f"fun method{number}() {{ call{number}() }}" for number in range(MAX_BLOCK_LINES + 50)]
    repo.commit_file(
        "Url.kt", "\n".join([*lines, "while (offset <= encodedQuery.length) {"]) + "\n", "Convert"
    )
    (step,) = trace(repo, home, "Url.kt", len(lines) + 1).evolution
    assert step.text == loop


def test_guess_of_an_ignored_commit_is_not_followed(repo: Repo, home: Path) -> None:
    """If git, to skip an ignored commit, assigns a line to a different one, its own line is followed."""
    names = ["cancel_checkpoint", "detach_coroutine", "reschedule_task", "wait_readable"]

    def join(order: Sequence[str], form: str) -> str:
        return "from .core import (\n" + "".join(f"    {form.format(name)},\n" for name in order) + ")\n"

    repo.commit_file("api.py", join(names, "{0}"), "Import them")
    repo.commit_file("api.py", join([*names[:3], "protect_keyboard", names[3]], "{0}"), "Import another")
    ordered = ["protect_keyboard", *reversed(names)]
    repo.commit_file("api.py", join(ordered, "{0}"), "Sort them")
    repo.commit_file(".git-blame-ignore-revs", repo.git("rev-parse", "HEAD") + "\n", "Ignore it")
    repo.commit_file("api.py", join(ordered, "{0} as {0}"), "Export them")
    for number, name in enumerate(ordered, 2):
        (step,) = trace(repo, home, "api.py", number).evolution
        assert step.text == f"{name},"
        subject = "Import another" if name == "protect_keyboard" else "Import them"
        assert step.commit_message == subject


def test_copy_has_equal_text(repo: Repo, home: Path) -> None:
    """A line that git finds in the parent only by skipping an ignored commit is no copy of it."""
    old = f"def run(job):\n    legacy_scheduler.enqueue_later(job)\n    return job.identifier\n{OTHER}"
    new = (
        f"def run(job):\n    with tracing: execute_pipeline_immediately()\n    return job.identifier\n{OTHER}"
    )
    repo.commit_file("jobs.py", old, "Run jobs")
    repo.commit_file("jobs.py", new, "Run them now")
    repo.commit_file(".git-blame-ignore-revs", repo.git("rev-parse", "HEAD") + "\n", "Ignore it")
    repo.commit_file("jobs.py", new.replace("tracing", "trace"), "Rename it")
    texts = [step.text for step in trace(repo, home, "jobs.py", 2).evolution]
    assert texts == ["with tracing: execute_pipeline_immediately()"]


def test_moved_line_beside_a_very_large_file(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with too many changed lines is left out of the search for moved lines, and the answer says so."""
    monkeypatch.setattr(changed_lines, "MAX_MOVE_LINES", 30)
    lock = "".join(f"package {number}\n" for number in range(40))
    repo.commit_file("a.lock", lock, "Lock")
    repo.write("a.lock", lock.replace("package", "module"))
    repo.write("net.py", OTHER)
    repo.commit_file("sockets.py", CONNECT, "Move connect")
    details = trace(repo, home, "sockets.py", 3)
    assert list_steps(details)[0][1:] == ("Add connect", "EXACT")
    assert "were not searched for moved lines" in (details.evolution_limitation or "")


@pytest.mark.parametrize("is_same_second", [False, True])
def test_one_of_equal_removed_lines_is_restored(repo: Repo, home: Path, is_same_second: bool) -> None:
    """Of several equal removed lines, the one between the same lines is restored, also within one second."""
    flush = "    flush_everything(now, later)\n"
    first, second = (
        f"def first():\n    begin()\n{flush}",
        f"def second():\n    open_all()\n{flush}    close_all()\n",
    )
    repo.commit_file("flush.py", first + second, "Flush twice")
    step = timedelta(0) if is_same_second else timedelta(hours=1)
    clock = repo.clock
    repo.commit_file("flush.py", (first + second).replace(flush, ""), "Flush never")
    repo.clock = clock + step
    repo.commit_file("flush.py", first.replace(flush, "") + second, "Flush again")
    build_index(repo, home)
    assert list_steps(trace(repo, home, "flush.py", 5))[0][1] == "Flush twice"


def test_evolution_without_time_is_not_cached(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer whose search for earlier commits ran out of time is computed again for the next request."""
    repo.commit_file("net.py", CONNECT.replace("DELAY", "PAUSE") + OTHER, "Rename it")
    explainer = Explainer(home)
    request = ExplainRequest("net.py", 3, 3, include_evolution=True)
    with monkeypatch.context() as context:
        context.setattr(line_evolution, "MAX_SECONDS", -1)
        assert explainer.explain(request, repo.path).meta.explain.evolution == ()
    assert len(explainer.explain(request, repo.path).meta.explain.evolution) == 1


def test_unreadable_commit_of_a_step(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose commit cannot be read is left out, and the answer keeps its hits."""
    repo.commit_file("net.py", CONNECT.replace("DELAY", "PAUSE") + OTHER, "Rename it")
    added = repo.git("rev-parse", "HEAD~")

    read_commit = Repository.read_commit

    def read_other_commit(repository: Repository, sha: str) -> Commit:
        if sha == added:
            raise UnreadableObject(sha, "damaged")
        return read_commit(repository, sha)

    monkeypatch.setattr(Repository, "read_commit", read_other_commit)
    answer = explain(repo, home, "net.py", 3, 3, include_evolution=True)
    assert len(answer.hits) == 1
    assert answer.meta.explain.evolution == ()
    assert "could not be read" in (answer.meta.explain.evolution_limitation or "")


def test_leads_of_a_commit_are_blamed_together(repo: Repo, home: Path) -> None:
    """One process of git blame finds the commits that wrote what all new lines of a commit replaced."""
    old = "".join(f"    alpha_{number}.load(beta_{number})\n" for number in range(8))
    new = "".join(f"    send_{number} = gamma_{number} + 'x{number}'\n" for number in range(8))
    repo.commit_file("many.py", old, "Load")
    repo.commit_file("many.py", new, "Send")
    repo.commit_file("many.py", new.replace("    ", "\t"), "Use tabs")
    with patch.object(RevisionBlamer, "blame", autospec=True, side_effect=RevisionBlamer.blame) as blame:
        details = trace(repo, home, "many.py", 1, 8)
    assert [lead.commit_message for lead in details.leads] == ["Load"]
    assert blame.call_count == 2


@pytest.mark.parametrize(
    ("text", "is_comment"),
    [
        (" * licensed under", True),
        ("# licensed under", True),
        ("-- licensed", True),
        ("*out = f(x);", False),
        ("#include <stdio.h>", False),
        ("#[derive(Debug)]", False),
    ],
)
def test_comments(text: str, is_comment: bool) -> None:
    """Pointers, directives and attributes are code, not comments."""
    assert bool(line_evolution.COMMENT.match(text)) == is_comment


def test_many_equal_lines_are_paired_in_order(repo: Repo, home: Path) -> None:
    """Each of many equal lines that are formatted anew continues one of them."""
    count = MAX_CANDIDATES + 2
    lines = [TIMEOUT for _ in range(count)]
    repo.commit_file("many.py", "".join(lines), "Add many")
    repo.commit_file("many.py", "".join(line.replace("    ", "\t") for line in lines), "Use tabs")
    (step,) = trace(repo, home, "many.py", 1, count).evolution
    assert (step.commit_message, len(step.lines)) == ("Add many", count)


def test_line_of_a_longer_one_is_its_part(repo: Repo, home: Path) -> None:
    """The source of a line is the line that has it completely, before a line of the same form."""
    old = 'if (typeof data === "string") return ParsedType.string;\n{\n  return ParsedType.number;\n}\n'
    new = 'switch (typeof data) {\n  case "string":\n    return ParsedType.string;\n'
    new += "  default:\n    return isNaN(data) ? ParsedType.nan : ParsedType.number;\n}\n"
    repo.commit_file("parse.js", old, "Parse")
    repo.commit_file("parse.js", new, "Switch")
    (step,) = trace(repo, home, "parse.js", 3).evolution
    assert step.text.startswith("if (typeof data")


def test_repeated_lines_of_a_commit_are_searched_together(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process of git searches the files of the parent for all lines of a commit that may be restored."""
    repo.remove("net.py")
    repo.commit("Remove net")
    repo.commit_file("sockets.py", CONNECT + PARSE + OTHER, "Add sockets")
    build_index(repo, home)
    find_repeated_lines = Mock(return_value=set())
    monkeypatch.setattr(line_search, "find_repeated_lines", find_repeated_lines)
    assert "introduced" in [step for step, *_ in list_steps(trace(repo, home, "sockets.py", 1, 7))]
    find_repeated_lines.assert_called_once()
    assert {line.strip() for line in CONNECT.splitlines()[:3]} <= find_repeated_lines.call_args.args[2]


@pytest.mark.parametrize("copies", [0, 2])
def test_common_line_is_not_restored(repo: Repo, home: Path, copies: int) -> None:
    """A line of a removed file is restored in a file of another name, unless files of the parent have the line."""
    for number in range(copies):
        repo.commit_file(f"user{number}.py", TIMEOUT, "Use it")
    repo.remove("net.py")
    repo.commit("Remove net")
    repo.commit_file("sockets.py", CONNECT + OTHER, "Add sockets")
    build_index(repo, home)
    steps = [step for step, *_ in list_steps(trace(repo, home, "sockets.py", 3))]
    assert steps == (["introduced"] if copies == 0 else [])


def test_better_rival_is_the_descendant(repo: Repo, home: Path) -> None:
    """A line next to an edited one is new: the edited one is clearly more similar to the old line."""
    edited, new = TIMEOUT.replace("DELAY", "PAUSE"), "    socket.set_option(retries * LIMIT)\n"
    repo.commit_file("net.py", CONNECT.replace(TIMEOUT, new + edited) + OTHER, "Edit and add")
    assert trace(repo, home, "net.py", 3).evolution == ()
    assert list_steps(trace(repo, home, "net.py", 4)) == [("introduced", "Add connect", "INFERRED")]


def test_merge_is_compared_with_every_parent(repo: Repo, home: Path) -> None:
    """A line that a merge edited leads to the parent with the most similar line, not only to the first."""
    repo.branch("side")
    repo.commit_file(
        "net.py", CONNECT.replace("retries * DELAY", "compute_delay(retries)") + OTHER, "Compute"
    )
    repo.switch("main")
    repo.commit_file("net.py", CONNECT.replace(TIMEOUT, "    pass\n") + OTHER, "Drop the timeout")
    resolution = CONNECT.replace("retries * DELAY", "compute_delay(retries, LIMIT)") + OTHER
    repo.merge("side", resolution={"net.py": resolution})
    assert list_steps(trace(repo, home, "net.py", 3)) == [
        ("modified", "Compute", "INFERRED"),
        ("introduced", "Add connect", "INFERRED"),
    ]


def test_lines_share_a_commit(repo: Repo, home: Path) -> None:
    """Lines with the same step of a commit are one entry, with the text of the first one; braces are not followed."""
    repo.commit_file("a.js", "function add(first, second) {\n  return first + second\n}\n", "Add add")
    repo.commit_file("a.js", "function add(first, second) {\n    return first + second;\n}\n", "Semicolon")
    repo.commit_file("a.js", "  function add(first, second) {\n      return first + second;\n  }\n", "Indent")
    details = trace(repo, home, "a.js", 1, 3)
    assert [(step.commit_message, step.lines, step.text) for step in details.evolution] == [
        ("Semicolon", (2,), "return first + second;"),
        ("Add add", (1, 2), "function add(first, second) {"),
    ]


def test_replaced_lines_are_leads(repo: Repo, home: Path) -> None:
    """The commit that wrote what a new line replaced is a lead, without an index too."""
    repo.commit_file("net.py", CONNECT.replace(TIMEOUT, "    wait_for(seconds=30)\n") + OTHER, "Wait")
    details = trace(repo, home, "net.py", 3)
    assert details.evolution == ()
    assert [(lead.commit_message, lead.text, lead.provenance) for lead in details.leads] == [
        ("Add connect", TIMEOUT.strip(), "INFERRED")
    ]


def test_oldest_commits_with_the_name_are_leads(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest commits that add the rarest name of a new line to a file of its kind are leads, a bounded number."""
    for number in range(5):
        repo.commit_file(f"part{number}.py", f"retry_{number}(max_attempts)\n", f"Part {number}")
    repo.commit_file("part0.py", "retry_0(max_attempts, 1)\n", "Edit part 0")
    repo.commit_file("page.md", "max_attempts\n", "Document")
    repo.commit_file("net.py", OTHER + "limit = get(max_attempts)\n", "Use it")
    build_index(repo, home)
    leads = trace(repo, home, "net.py", 7).leads
    assert [(lead.commit_message, lead.text) for lead in leads] == [
        (f"Part {number}", "max_attempts") for number in range(3)
    ]
    monkeypatch.setattr(line_search, "LEADS_PER_TERM", 9)
    assert len(trace(repo, home, "net.py", 7).leads) == 5  # an edited line had the name before
    monkeypatch.setattr(line_evolution, "MAX_LEADS", 2)
    assert [lead.commit_message for lead in trace(repo, home, "net.py", 7).leads] == ["Part 0", "Part 1"]


@pytest.mark.parametrize(
    ("old", "is_lead"),
    [
        ('load("/etc/retry.conf")', True),
        ('load("host/etc/retry.conf")', True),
        ('load("/etc/retry.config")', False),
        ("# RETRY_CONF etc retry conf", False),
    ],
)
def test_literal_of_a_lead(repo: Repo, home: Path, old: str, is_lead: bool) -> None:
    """A commit that adds the literal of a new line is a lead, one that adds its words or a longer word is none."""
    repo.commit_file("part.py", f"{old}\n", "Part")
    repo.commit_file("net.py", OTHER + 'settings = read("/etc/retry.conf")\n', "Use it")
    build_index(repo, home)
    leads = trace(repo, home, "net.py", 7).leads
    assert [lead.commit_message for lead in leads] == ["Part"] * is_lead


def test_work_is_bounded(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a number of commits or a time the search stops, and the answer says so."""
    for number in range(5):
        repo.commit_file("net.py", CONNECT.replace("DELAY", f"DELAY_{number}") + OTHER, f"Edit {number}")
    note = "The search for earlier commits stopped at its limit, so some may be missing."
    assert len(trace(repo, home, "net.py", 3).evolution) == 5
    monkeypatch.setattr(line_evolution, "MAX_COMMITS", 3)
    details = trace(repo, home, "net.py", 3)
    assert [step.commit_message for step in details.evolution] == ["Edit 3", "Edit 2"]
    assert note in (details.evolution_limitation or "")
    monkeypatch.setattr(line_evolution, "MAX_SECONDS", 0)
    details = trace(repo, home, "net.py", 3)
    assert details.evolution == ()
    assert note in (details.evolution_limitation or "")


def test_time_is_bounded_within_a_commit(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search stops at its deadline also between lines of one commit."""
    repo.commit_file("net.py", CONNECT.replace("DELAY", "LIMIT").replace("address", "host") + OTHER, "Edit")
    find_best_match = Mock(side_effect=lambda *_: time.sleep(0.2))
    monkeypatch.setattr(SourceFinder, "_find_best_match", find_best_match)
    monkeypatch.setattr(line_evolution, "MAX_SECONDS", 0.2)
    details = trace(repo, home, "net.py", 1, 4)
    assert find_best_match.call_count <= 1
    assert "stopped at its limit" in (details.evolution_limitation or "")


@pytest.mark.parametrize("method", [LineSearcher.search_removals, LineSearcher.find_removed])
def test_line_of_an_interrupted_search_is_not_introduced(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, method: Callable[..., object]
) -> None:
    """If the time runs out in the search for an earlier removal, the commit is not said to have introduced the line."""
    repo.commit_file("net.py", OTHER, "Remove connect")
    repo.commit_file("net.py", CONNECT + OTHER, "Restore connect")
    repo.commit_file("net.py", CONNECT.replace("DELAY", "PAUSE") + OTHER, "Edit")
    build_index(repo, home)

    def run_out_of_time(searcher: LineSearcher, *arguments: object) -> object:
        searcher.deadline.end = 0
        searcher.deadline.check()
        return method(searcher, *arguments)

    monkeypatch.setattr(LineSearcher, method.__name__, run_out_of_time)
    details = trace(repo, home, "net.py", 3)
    assert details.evolution == ()
    assert "stopped at its limit" in (details.evolution_limitation or "")


def test_line_of_an_interrupted_search_for_copies_is_not_introduced(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If git runs out of time in the search for copies, the commit is not said to have introduced the line."""
    repo.commit_file("copy.py", CONNECT, "Copy it")
    repo.commit_file("copy.py", CONNECT.replace("DELAY", "PAUSE"), "Edit the copy")
    assert [step.step for step in trace(repo, home, "copy.py", 3).evolution] == ["moved", "introduced"]
    monkeypatch.setattr(line_evolution, "select_copies", Mock(side_effect=GitTimeout(0)))
    details = trace(repo, home, "copy.py", 3)
    assert details.evolution == ()
    assert "stopped at its limit" in (details.evolution_limitation or "")


def test_line_restored_several_times(repo: Repo, home: Path) -> None:
    """A line that was removed and restored again and again is followed to the commit that introduced it."""
    for number in range(3):
        repo.commit_file("net.py", OTHER, f"Remove {number}")
        repo.commit_file("net.py", CONNECT + OTHER, f"Restore {number}")
    repo.commit_file("net.py", CONNECT.replace("DELAY", "PAUSE") + OTHER, "Edit")
    build_index(repo, home)
    steps = [(step.step, step.commit_message) for step in trace(repo, home, "net.py", 3).evolution]
    assert steps == [
        *(("restored", f"Restore {number}") for number in (2, 1, 0)),
        ("introduced", "Add connect"),
    ]


def test_number_of_commits_is_bounded(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many commits, those that introduced lines are listed first, and the answer counts the others."""
    for number in range(3):
        repo.commit_file("net.py", CONNECT.replace("DELAY", f"DELAY_{number}") + OTHER, f"Edit {number}")
    monkeypatch.setattr(line_evolution, "MAX_STEPS", 2)
    details = trace(repo, home, "net.py", 3)
    assert [step.commit_message for step in details.evolution] == ["Edit 1", "Add connect"]
    assert "Steps not listed: 1." in (details.evolution_limitation or "")


def test_many_lines_are_not_followed(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a long range the answer asks for fewer lines."""
    monkeypatch.setattr(line_evolution, "MAX_LINES", 2)
    details = trace(repo, home, "net.py", 1, 3)
    assert details.evolution_limitation == "Earlier commits are listed for up to 2 lines. Ask for fewer."


def test_evolution_ends_at_a_shallow_boundary(repo: Repo, home: Path, tmp_path: Path) -> None:
    """The oldest commit of a shallow clone is not said to have introduced a line."""
    repo.commit_file("net.py", CONNECT.replace("DELAY", "PAUSE") + OTHER, "Rename it")
    shallow = repo.clone(tmp_path / "shallow", "--depth=2")
    details = trace(shallow, home, "net.py", 3)
    assert details.evolution == ()
    assert "Run `git fetch --unshallow`." in (details.evolution_limitation or "")


def test_uncommitted_changes(repo: Repo, home: Path) -> None:
    """Line numbers are those of the file on disk; a line that is not committed has no evolution."""
    repo.commit_file("net.py", CONNECT.replace("DELAY", "PAUSE") + OTHER, "Rename it")
    repo.write("net.py", "new = 1\n" + CONNECT.replace("DELAY", "PAUSE") + OTHER)
    details = trace(repo, home, "net.py", 1, 5)
    assert [(step.commit_message, step.lines) for step in details.evolution] == [("Add connect", (4,))]


def test_long_message_is_cropped(repo: Repo, home: Path) -> None:
    """The message of an earlier commit is short, because an answer can have many of them."""
    repo.commit("Add connect\n\n" + "word " * 200, amend=True)
    repo.commit_file("net.py", CONNECT.replace("DELAY", "PAUSE") + OTHER, "Rename it")
    (step,) = trace(repo, home, "net.py", 3).evolution
    assert len(step.commit_message) <= line_evolution.MAX_MESSAGE_CHARACTERS + 2
    assert step.commit_message.endswith("word …")


def test_evolution_is_optional(repo: Repo, home: Path) -> None:
    """Without `include_evolution` there is none."""
    repo.commit_file("net.py", CONNECT.replace("DELAY", "PAUSE") + OTHER, "Rename it")
    answer: ExplainAnswer = explain(repo, home, "net.py", 3, 3)
    assert answer.meta.explain.evolution == ()
    assert answer.meta.explain.evolution_limitation is None
