"""`lineage index -i` at a real terminal, as a person goes through it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.encoders import providers
from pipeline.options import EmbedCache, Encoding
from serve.cli import app, index
from serve.cli.options import EmbedProvider, Flags, Resources
from serve.cli.wizard import command, options
from serve.cli.wizard_questions import (
    ADVANCED,
    RESOURCES,
    Choice,
    Knob,
    Mode,
    Number,
    knobs,
    offered,
    read_number,
)
from tests.pipeline.histories import interleaved
from tests.repos import Repo
from tests.serve.cli.terminals import CONTROL_C, DOWN, ENTER, ESCAPE, ROOT, Terminal

ALWAYS = knobs(offered([*EmbedProvider], {"cpu"})[0])
MODE, PROVIDER, SHARE = "What is to be done?", "What runs the encoder?", "How much of the machine"
MORE, RUN, DELETE = "Set more: threads", "Run it?", "Really delete the index of repo"


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - no test may meet the person's own indexes
    return interleaved(tmp_path / "repo", rounds=1)


@pytest.fixture
def wizard(repo: Repo) -> Terminal:
    return Terminal("index", "-i", folder=repo.path)


def chosen(terminal: Terminal, mode: Mode) -> str:
    """Go through the questions with this mode and else with Enter, up to the last one; the screen then."""
    terminal.see(MODE)
    terminal.press(DOWN * list(Mode).index(mode) + ENTER)
    for question in (PROVIDER, SHARE, MORE):
        terminal.see(question)
        terminal.press(ENTER)
    return terminal.see(RUN)


def test_each_mode_runs(repo: Repo) -> None:
    """Every mode shows its command, and then does what the command does."""
    said = {
        Mode.STANDARD: ("lineage index", "9 commits"),
        Mode.INCREMENTAL: ("lineage index --incremental", f"index up-to-date at {repo.head}"),
        Mode.FORCE: ("lineage index --force", "0 commits, 0 hunks, 5 HEAD symbols"),
        Mode.REBUILD: ("lineage index --rebuild --yes", "9 commits"),
    }
    for mode, (shown, done) in said.items():
        terminal = Terminal("index", "-i", folder=repo.path)
        screen = chosen(terminal, mode)
        assert f"✓ {MODE} {mode.value.capitalize()}" in screen
        assert f"    {shown}\n" in screen
        terminal.press("y")
        if mode is Mode.REBUILD:
            assert "(9 commits)" in terminal.see(DELETE)
            terminal.press("y")
        assert terminal.end() == 0
        assert done in terminal.screen


def test_the_screen(wizard: Terminal, repo: Repo) -> None:
    """What a person sees at the end of the questions, line for line."""
    screen = chosen(wizard, Mode.STANDARD)
    lacking = ", ".join(name for name in ("coreml", "cuda") if name not in providers.built_in())
    assert screen == (
        f"Index {repo.path}\n"
        "not indexed yet; 10 commits to take up\n"
        "Nothing happens before the last question; Esc or Ctrl-C leaves at any of them.\n"
        "\n"
        "✓ What is to be done? Standard\n"
        f"  Not offered, because this build cannot run them: {lacking}.\n"
        "✓ What runs the encoder? Auto\n"
        "✓ How much of the machine may it take? Auto\n"
        "✓ Set more: threads, processes, batches, output? No\n"
        "\n"
        "The same without questions:\n"
        "\n"
        "    lineage index\n"
        "\n"
        "? Run it? (Y/n)"
    )
    wizard.press("n")
    assert wizard.end() == 130
    assert wizard.screen.endswith("\nCancelled: nothing was done.")


def test_advanced(repo: Repo, home: Path) -> None:
    """Every further knob is asked for, a number that is none is refused until it is one, and the run obeys."""
    terminal = Terminal("index", "-i", "src dir", folder=repo.path.parent)
    (repo.path.parent / "src dir").symlink_to(repo.path)
    terminal.see(MODE)
    terminal.press(ENTER)
    terminal.see(PROVIDER)
    terminal.press(DOWN + ENTER)
    terminal.see(SHARE)
    terminal.press(DOWN + ENTER)
    terminal.see(MORE)
    terminal.press("y")
    terminal.see("Encoder threads")
    terminal.press("-1" + ENTER)
    assert "from resources) -1\nA whole number from 0 on, or nothing: from resources." in terminal.see(
        "A whole number"
    )
    terminal.press("\x7f\x7f2" + ENTER)
    for question, keys in (
        ("Processes that read", "1" + ENTER),
        ("Commits per", "5" + ENTER),
        ("Texts embedded", "3" + ENTER),
        ("What makes vectors?", DOWN + ENTER),
        ("Keep vectors", DOWN * 2 + ENTER),
        ("progress bar?", "n"),
        ("timings", "y"),
    ):
        terminal.see(f"? {question}" if question.startswith(("P", "C", "T")) else question)
        terminal.press(keys)
    screen = terminal.see(RUN)
    assert (
        "\n    lineage index 'src dir' --embed-provider cpu --resources conservative --threads 2 --workers 1 "
        "--commit-batch 5 --embed-batch 3 --encoder minilm --embed-cache semantic --no-progress --profile\n"
    ) in screen
    assert not home.exists()
    terminal.press(ENTER)
    assert terminal.end() == 0
    assert '"commit_walk_ms"' in terminal.screen


@pytest.mark.parametrize(
    ("question", "key"),
    [
        (MODE, ESCAPE),
        (MODE, CONTROL_C),
        (MORE, ESCAPE),
        ("Encoder threads", ESCAPE),
        ("Encoder threads", CONTROL_C),
        (RUN, CONTROL_C),
    ],
)
def test_leaving(wizard: Terminal, home: Path, key: str, question: str) -> None:
    """Esc and Ctrl-C leave at a list, at a yes-or-no, at a number and at the last question; nothing is done."""
    for asked, answer in (
        (MODE, ENTER),
        (PROVIDER, ENTER),
        (SHARE, ENTER),
        (MORE, "y"),
        ("Encoder threads", ENTER),
    ):
        wizard.see(asked)
        if asked == question or (question == RUN and asked == MORE):
            break
        wizard.press(answer)
    if question == RUN:
        wizard.press("n")
        wizard.see(RUN)
    wizard.press(key)
    assert wizard.end() == 130
    assert wizard.screen.endswith("Cancelled: nothing was done.")
    assert not home.exists()


@pytest.mark.parametrize(("times", "refusal"), [(1, "n"), (1, ENTER), (2, "n"), (2, ENTER), (2, ESCAPE)])
def test_rebuild_is_confirmed_twice(repo: Repo, home: Path, times: int, refusal: str) -> None:
    """Either confirmation refused, by No, by Enter alone or by Esc, the index is as it was."""
    terminal = Terminal("index", "-i", folder=repo.path)
    assert f"? {RUN} (y/N)" in chosen(terminal, Mode.REBUILD)
    if times == 2:
        terminal.press("y")
        terminal.see(DELETE)
    terminal.press(refusal)
    assert terminal.end() == 130
    assert terminal.screen.endswith("Cancelled: nothing was done.")
    assert not home.exists()


def test_other_flags_are_ignored_and_named(repo: Repo) -> None:
    """Tuning flags beside -i are said to be ignored, and are not in the command."""
    terminal = Terminal("index", "-i", "--threads", "7", "--rebuild", "--yes", "--profile", folder=repo.path)
    screen = chosen(terminal, Mode.STANDARD)
    assert screen.startswith(
        "warning: -i asks for everything: ignored are --rebuild --yes --threads 7 --profile\n"
    )
    assert "    lineage index\n" in screen
    terminal.press(ESCAPE)
    assert terminal.end() == 130


def interactive(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "serve.cli.app", "index", "--interactive", str(folder)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_terminal(repo: Repo, home: Path) -> None:
    """Where nobody can answer, it is an error that says what to do instead."""
    done = interactive(repo.path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: -i asks questions, and there is no terminal")
    assert "`lineage index --help`" in done.stderr
    assert not home.exists()


def test_a_terminal_that_cannot_draw(repo: Repo) -> None:
    """TERM=dumb is told so before any question."""
    terminal = Terminal("index", "-i", folder=repo.path, TERM="dumb")
    assert terminal.end() == 2
    assert "which this terminal (TERM=dumb) cannot show" in terminal.screen


def test_outside_a_repository(tmp_path: Path) -> None:
    """Where there is nothing to index, that is said before any question."""
    terminal = Terminal("index", "-i", folder=tmp_path)
    assert terminal.end() == 1
    assert "is not in a git repository" in terminal.screen


ODD = (
    Flags(),
    Flags(incremental=True, provider=EmbedProvider.CPU),
    Flags(rebuild=True, yes=True, resources=Resources.AGGRESSIVE, progress=False),
    Flags(
        force=True,
        threads=0,
        workers=3,
        commit_batch=1,
        embed_batch=9,
        profile=True,
        embed_cache=EmbedCache.DIFF,
        encoder=Encoding.STATIC,
    ),
)


@pytest.mark.parametrize("flags", ODD)
@pytest.mark.parametrize("path", [".", "a b", "-x", "it's"])
def test_the_command_says_the_same(flags: Flags, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pasted into a shell, the command that is shown asks for exactly the flags that the wizard runs with."""
    given: list[tuple[Path, Flags]] = []
    monkeypatch.setattr(index, "index", lambda *called: given.append(called))
    program, *arguments = shlex.split(command(Path(path), flags, (*ALWAYS, *ADVANCED)))
    assert program == "lineage"
    assert app.main(arguments) == 0
    assert given == [(Path(path), flags)]


def test_every_flag_has_its_question() -> None:
    """Nothing that `lineage index` can be told is left out of the wizard."""
    modes = {"incremental", "force", "rebuild", "yes"}
    assert {knob.field for knob in (*ALWAYS, *ADVANCED)} | modes == set(Flags.__dataclass_fields__)


def test_providers_that_cannot_run_are_left_out() -> None:
    """What this build cannot run is not offered but named; `auto` always is."""
    answers, cannot = offered(["auto", "cpu", "coreml", "cuda"], {"cpu", "cuda"})
    assert [answer.value for answer in answers] == ["auto", "cpu", "cuda"]
    assert cannot == ("coreml",)


@pytest.mark.parametrize("text", ["x", "1.5", "-1", "0", "1_0", "٣", "1 2"])
def test_what_is_no_number(text: str) -> None:
    """Anything but digits from the least on is refused, with what to type instead."""
    with pytest.raises(ValueError, match="A whole number from 1 on, or nothing: all"):
        read_number(text, Number(1, "all"))


def test_what_is_a_number() -> None:
    """Digits with space around are a number, nothing at all leaves it to the default."""
    assert [read_number(text, Number(0, "all")) for text in (" 12 ", "0", "", "  ")] == [12, 0, None, None]


def test_a_knob_is_one_entry() -> None:
    """A choice of its own adds nothing to the command for its first answer, and its flag for another."""
    knob = Knob("resources", "--some", "Which?", Choice(RESOURCES.answers, Resources))
    assert options(Flags(), [knob]) == []
    assert options(Flags(resources=Resources.AGGRESSIVE), [knob]) == ["--some", "aggressive"]


def test_a_choice_may_leave_something_alone() -> None:
    """Where none of the answers is what happens without the flag, leaving it alone comes first and adds nothing."""
    choice = Choice(RESOURCES.answers, Resources, alone="as the index has it")
    assert [answer.value for answer in choice.offered] == ["unchanged", "auto", "conservative", "aggressive"]
    assert (choice.value("unchanged"), choice.value("auto")) == (None, Resources.AUTO)
    knob = Knob("workers", "--some", "Which?", choice)
    assert options(Flags(workers=None), [knob]) == []
    assert options(Flags(workers=1), [knob]) == ["--some", "1"]
