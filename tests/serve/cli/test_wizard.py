"""`lineage index -i` on a real terminal."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.encoders import providers
from pipeline.options import EmbedCacheMode, EmbedProvider, EncoderName, Resources
from serve.cli import app, index
from serve.cli.index import IndexOptions
from serve.cli.wizard import UNASKED_OPTIONS, format_equivalent_command, format_option_arguments
from serve.cli.wizard_questions import (
    ADVANCED_QUESTIONS,
    RESOURCE_CHOICE,
    Choice,
    Mode,
    Number,
    WizardQuestion,
    build_basic_questions,
    parse_number,
    split_providers,
)
from tests.pipeline.histories import create_interleaved_repo
from tests.repos import Repo
from tests.serve.cli.terminals import CONTROL_C, DOWN, ENTER, ESCAPE, ROOT, Terminal

BASIC_QUESTIONS = build_basic_questions(split_providers([*EmbedProvider], {"cpu"})[0])
MODE, PROVIDER, SHARE = "What should be done?", "What should run the encoder?", "How much of the machine"
MORE, RUN, DELETE = "Set more: threads", "Run it?", "Really delete the index of repo"


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - isolates the user's indexes
    """Small repository; `home` keeps the tests out of the user's indexes."""
    return create_interleaved_repo(tmp_path / "repo", rounds=1)


@pytest.fixture
def wizard(repo: Repo) -> Terminal:
    """The wizard on a terminal in the repository."""
    return Terminal("index", "-i", folder=repo.path)


def answer_all(terminal: Terminal, mode: Mode) -> str:
    """Choose this mode and press Enter at all other questions but the last; return the screen."""
    terminal.wait_for(MODE)
    terminal.press(DOWN * list(Mode).index(mode) + ENTER)
    for question in (PROVIDER, SHARE, MORE):
        terminal.wait_for(question)
        terminal.press(ENTER)
    return terminal.wait_for(RUN)


def test_each_mode_runs(repo: Repo) -> None:
    """Every mode shows its command and runs it."""
    expected = {
        Mode.STANDARD: ("lineage index", "9 commits"),
        Mode.INCREMENTAL: ("lineage index --incremental", f"index up-to-date at {repo.head}"),
        Mode.FORCE: ("lineage index --force", "0 commits, 0 hunks, 5 HEAD symbols"),
        Mode.REBUILD: ("lineage index --rebuild --yes", "9 commits"),
    }
    for mode, (command, result) in expected.items():
        terminal = Terminal("index", "-i", folder=repo.path)
        screen = answer_all(terminal, mode)
        assert f"✓ {MODE} {mode.value.capitalize()}" in screen
        assert f"    {command}\n" in screen
        terminal.press("y")
        if mode is Mode.REBUILD:
            assert "(9 commits)" in terminal.wait_for(DELETE)
            terminal.press("y")
        assert terminal.wait_for_exit() == 0
        assert result in terminal.screen


def test_final_screen(wizard: Terminal, repo: Repo) -> None:
    """After all questions the screen has the heading, each answer, the equivalent command and the last question."""
    screen = answer_all(wizard, Mode.STANDARD)
    unavailable = ", ".join(
        name for name in ("coreml", "cuda") if name not in providers.list_built_in_providers()
    )
    assert screen == (
        f"Index {repo.path}\n"
        "not indexed yet; 10 commits to index\n"
        "Nothing happens before the last question. Esc or Ctrl-C cancels at any question.\n"
        "\n"
        "✓ What should be done? Standard\n"
        f"  Not available in this build: {unavailable}.\n"
        "✓ What should run the encoder? Auto\n"
        "✓ How much of the machine may the run use? Auto\n"
        "✓ Set more: threads, processes, batches, output? No\n"
        "\n"
        "The same without questions:\n"
        "\n"
        "    lineage index\n"
        "\n"
        "? Run it? (Y/n)"
    )
    wizard.press("n")
    assert wizard.wait_for_exit() == 130
    assert wizard.screen.endswith("\nCancelled: nothing was done.")


def test_advanced_options(repo: Repo, home: Path) -> None:
    """Every advanced option is asked for, invalid numbers are refused, and the run uses the answers."""
    terminal = Terminal("index", "-i", "src dir", folder=repo.path.parent)
    (repo.path.parent / "src dir").symlink_to(repo.path)
    terminal.wait_for(MODE)
    terminal.press(ENTER)
    terminal.wait_for(PROVIDER)
    terminal.press(DOWN + ENTER)
    terminal.wait_for(SHARE)
    terminal.press(DOWN + ENTER)
    terminal.wait_for(MORE)
    terminal.press("y")
    terminal.wait_for("Encoder threads")
    terminal.press("-1" + ENTER)
    assert (
        "from resources) -1\nEnter a whole number from 0, or nothing for the default: from resources."
        in terminal.wait_for("Enter a whole number")
    )
    terminal.press("\x7f\x7f2" + ENTER)
    for question, keys in (
        ("Processes that read", "1" + ENTER),
        ("Commits per", "5" + ENTER),
        ("Texts per", "3" + ENTER),
        ("Which embedding model?", DOWN + ENTER),
        ("Keep vectors", DOWN * 2 + ENTER),
        ("progress bar?", "n"),
        ("timings", "y"),
    ):
        terminal.wait_for(f"? {question}" if question.startswith(("P", "C", "T")) else question)
        terminal.press(keys)
    screen = terminal.wait_for(RUN)
    assert (
        "\n    lineage index 'src dir' --embed-provider cpu --resources conservative --threads 2 --workers 1 "
        "--commit-batch 5 --embed-batch 3 --encoder minilm --embed-cache semantic --no-progress --profile\n"
    ) in screen
    assert not home.exists()
    terminal.press(ENTER)
    assert terminal.wait_for_exit() == 0
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
def test_cancel_at_each_kind_of_question(wizard: Terminal, home: Path, key: str, question: str) -> None:
    """Esc and Ctrl-C cancel at any kind of question, and nothing is done."""
    for current, answer in (
        (MODE, ENTER),
        (PROVIDER, ENTER),
        (SHARE, ENTER),
        (MORE, "y"),
        ("Encoder threads", ENTER),
    ):
        wizard.wait_for(current)
        if current == question or (question == RUN and current == MORE):
            break
        wizard.press(answer)
    if question == RUN:
        wizard.press("n")
        wizard.wait_for(RUN)
    wizard.press(key)
    assert wizard.wait_for_exit() == 130
    assert wizard.screen.endswith("Cancelled: nothing was done.")
    assert not home.exists()


@pytest.mark.parametrize(("times", "refusal"), [(1, "n"), (1, ENTER), (2, "n"), (2, ENTER), (2, ESCAPE)])
def test_rebuild_needs_two_confirmations(repo: Repo, home: Path, times: int, refusal: str) -> None:
    """If either confirmation is refused by No, Enter or Esc, the index stays unchanged."""
    terminal = Terminal("index", "-i", folder=repo.path)
    assert f"? {RUN} (y/N)" in answer_all(terminal, Mode.REBUILD)
    if times == 2:
        terminal.press("y")
        terminal.wait_for(DELETE)
    terminal.press(refusal)
    assert terminal.wait_for_exit() == 130
    assert terminal.screen.endswith("Cancelled: nothing was done.")
    assert not home.exists()


def test_other_options_are_ignored_with_a_warning(repo: Repo) -> None:
    """Options other than PATH that are given together with -i are ignored. A warning names them."""
    terminal = Terminal("index", "-i", "--threads", "7", "--rebuild", "--yes", "--profile", folder=repo.path)
    screen = answer_all(terminal, Mode.STANDARD)
    assert screen.startswith(
        "warning: -i asks for these options itself, so it ignores --rebuild --yes --threads 7 --profile.\n"
    )
    assert "    lineage index\n" in screen
    terminal.press(ESCAPE)
    assert terminal.wait_for_exit() == 130


def test_options_without_a_question_are_rejected(repo: Repo, home: Path) -> None:
    """Options that the wizard does not ask about are an error, because an answer cannot replace them."""
    terminal = Terminal("index", "-i", "--branch", "topic", "--skip-vectors", folder=repo.path)
    assert terminal.wait_for_exit() == 2
    assert "-i does not ask about --skip-vectors, branches." in terminal.screen
    assert not home.exists()


def run_without_terminal(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the wizard without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "serve.cli.app", "index", "--interactive", str(folder)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_terminal_fails(repo: Repo, home: Path) -> None:
    """Without a terminal, the error says what to do instead."""
    result = run_without_terminal(repo.path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: -i asks questions and needs a terminal")
    assert "`lineage index --help`" in result.stderr
    assert not home.exists()


def test_dumb_terminal_fails(repo: Repo) -> None:
    """With TERM=dumb the wizard fails before any question."""
    terminal = Terminal("index", "-i", folder=repo.path, TERM="dumb")
    assert terminal.wait_for_exit() == 2
    assert "-i cannot show its questions on this terminal (TERM=dumb)" in terminal.screen


def test_outside_a_repository_fails(tmp_path: Path) -> None:
    """Outside a repository the wizard fails before any question."""
    terminal = Terminal("index", "-i", folder=tmp_path)
    assert terminal.wait_for_exit() == 1
    assert "is not in a git repository" in terminal.screen


UNUSUAL_OPTIONS = (
    IndexOptions(),
    IndexOptions(incremental=True, embed_provider=EmbedProvider.CPU),
    IndexOptions(rebuild=True, yes=True, resources=Resources.AGGRESSIVE, show_progress=False),
    IndexOptions(
        force=True,
        threads=0,
        workers=3,
        commit_batch=1,
        embed_batch=9,
        profile=True,
        embed_cache=EmbedCacheMode.DIFF,
        encoder=EncoderName.STATIC,
    ),
)


@pytest.mark.parametrize("options", UNUSUAL_OPTIONS)
@pytest.mark.parametrize("path", [".", "a b", "-x", "it's"])
def test_equivalent_command_has_the_same_options(
    options: IndexOptions, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shown command, run in a shell, has exactly the options of the wizard's run."""
    calls: list[tuple[Path, IndexOptions]] = []
    monkeypatch.setattr(index, "run_index_command", lambda *call: calls.append(call))
    program, *arguments = shlex.split(
        format_equivalent_command(Path(path), options, (*BASIC_QUESTIONS, *ADVANCED_QUESTIONS))
    )
    assert program == "lineage"
    assert app.main(arguments) == 0
    assert calls == [(Path(path), options)]


def test_every_option_has_a_question() -> None:
    """The wizard asks for every option of `lineage index`, except those for partial runs, remote runs and branches."""
    fields = {question.field for question in (*BASIC_QUESTIONS, *ADVANCED_QUESTIONS)}
    fields |= {"incremental", "force", "rebuild", "yes", *UNASKED_OPTIONS}
    assert fields == set(IndexOptions.__dataclass_fields__)


def test_unavailable_providers_are_not_offered() -> None:
    """Providers that this build lacks are named, but cannot be chosen. `auto` can always be chosen."""
    available, unavailable = split_providers([*EmbedProvider], {"cpu", "cuda"})
    assert [option.value for option in available] == ["auto", "cpu", "cuda"]
    assert unavailable == ("coreml",)


@pytest.mark.parametrize("text", ["x", "1.5", "-1", "0", "1_0", "٣", "1 2"])
def test_invalid_numbers(text: str) -> None:
    """A text that is no number, or a number below the minimum, is refused with what to enter instead."""
    with pytest.raises(ValueError, match="Enter a whole number from 1, or nothing for the default: all"):
        parse_number(text, Number(1, "all"))


def test_valid_numbers() -> None:
    """Digits with surrounding space are a number; an empty answer means the default."""
    assert [parse_number(text, Number(0, "all")) for text in (" 12 ", "0", "", "  ")] == [12, 0, None, None]


def test_choice_with_default_option() -> None:
    """The first option of a choice is the default and adds no argument. Another option adds its flag."""
    question = WizardQuestion("resources", "--some", "Which?", Choice(RESOURCE_CHOICE.options, Resources))
    assert format_option_arguments(IndexOptions(), [question]) == []
    assert format_option_arguments(IndexOptions(resources=Resources.AGGRESSIVE), [question]) == [
        "--some",
        "aggressive",
    ]


def test_choice_with_unchanged_option() -> None:
    """A choice that may keep the setting of the index offers `unchanged` first. This option adds no argument."""
    choice = Choice(RESOURCE_CHOICE.options, Resources, unchanged_meaning="as the index has it")
    assert [option.value for option in choice.all_options] == [
        "unchanged",
        "auto",
        "conservative",
        "aggressive",
    ]
    assert (choice.parse_answer("unchanged"), choice.parse_answer("auto")) == (None, Resources.AUTO)
    question = WizardQuestion("workers", "--some", "Which?", choice)
    assert format_option_arguments(IndexOptions(workers=None), [question]) == []
    assert format_option_arguments(IndexOptions(workers=1), [question]) == ["--some", "1"]
