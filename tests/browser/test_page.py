"""Page in a browser while agents write."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from playwright.sync_api import Page, expect

from mindmap.document import CHANGE_KINDS, COMPLETED, IN_PROGRESS, Mindmap
from mindmap.file_touches import TouchInput
from mindmap.nodes import remove_nodes
from mindmap.questions import ask_question
from tests.browser import maps
from tests.browser.conftest import PageSession, Site
from tests.browser.maps import ACTIVE_TASK, RISK, add_node, set_status
from tests.browser.measurements import find_card, find_violations, get_rectangle, wait_until_stable
from tests.mindmap.sample_maps import create_timestamp, find_id
from tests.repos import Repo


def create_note_edit(label: str) -> Callable[[Mindmap], Mindmap]:
    return lambda document: add_node(document, label, "note")


def test_plan_and_model_side_by_side(site: Site, session: PageSession) -> None:
    """Selecting a task highlights its component in the other pane; selecting a file fades all other nodes."""
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test")
    expect(find_card(page, ACTIVE_TASK, "plan")).to_be_visible()
    expect(find_card(page, RISK, "model")).to_be_visible()  # the last card of the pane
    expect(find_card(page, ACTIVE_TASK, "model")).to_have_count(0)
    find_card(page, ACTIVE_TASK).click()
    expect(find_card(page, "UploadSession", "model")).to_have_class(re.compile(r"\blit\b"))
    expect(find_card(page, RISK, "model")).not_to_have_class(re.compile(r"\blit\b"))
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name=re.compile("^media.uploads.py")).click()
    expect(find_card(page, RISK)).to_have_class(re.compile("faded"))
    expect(find_card(page, ACTIVE_TASK)).not_to_have_class(re.compile("faded"))


def test_url_of_node(site: Site, session: PageSession) -> None:
    """The URL of a node opens view, branch and panel, and a change of view changes the URL."""
    document = site.create_map(maps.create_large_map(300, 20))
    deep_node = next(node for node in document.nodes.values() if node.label.startswith("Pin the clock"))
    page = session.open(f"#/map/mm_test/node/{deep_node.id}?view=plan")
    expect(page.locator(".pane")).to_have_count(1)
    expect(page.locator(f"[data-id='{deep_node.id}']")).to_have_class(re.compile("selected"))
    expect(page.locator(".node h2")).to_have_text(deep_node.label)
    page.keyboard.press("2")
    expect(page).to_have_url(re.compile(r"view=map$"))


def test_node_panel(site: Site, session: PageSession) -> None:
    """The panel shows every kind of change with glyph and label, and actions, lines, symbols and old paths."""
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test")
    find_card(page, ACTIVE_TASK).click()
    panel = page.locator("#side-body")
    expect(panel.locator(".change")).to_have_text(list(CHANGE_KINDS.values()))
    labels = ["Added", "Modified", "Fixed", "Refactored", "Renamed", "Removed", "Tested"]
    expect(panel.locator(".change-label")).to_have_text(labels)
    for text in (
        "media/uploads.py",
        ":40-88",
        "HEAD answers the end of the first gap",
        "media/files.py",
        "reads",
    ):
        expect(panel).to_contain_text(text)
    panel.get_by_role("button", name="UploadSession").first.click()
    expect(page.locator(".node h2")).to_have_text("UploadSession")


def test_live_updates_keep_the_view(site: Site, session: PageSession) -> None:
    """Changes of two concurrent writers arrive and are marked; selection, collapsed nodes and view stay."""
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test")
    find_card(page, ACTIVE_TASK).click()
    page.keyboard.press("+")
    model_head = find_card(page, "How uploads work today")
    model_head.hover()
    model_head.locator(".toggle").click()
    expect(find_card(page, RISK)).to_have_count(0)
    find_card(page, ACTIVE_TASK).click()
    box_before = wait_until_stable(page, find_card(page, ACTIVE_TASK).bounding_box)

    def write(name: str) -> None:
        for number in range(6):
            site.change_map(create_note_edit(f"{name} finding {number}"))

    writers = [threading.Thread(target=write, args=(name,)) for name in ("First", "Second")]
    for writer in writers:
        writer.start()
    site.change_map(lambda document: set_status(document, ACTIVE_TASK, COMPLETED))
    expect(find_card(page, ACTIVE_TASK)).to_have_class(re.compile("s-completed.*changed"))
    for writer in writers:
        writer.join()
    site.change_map(create_note_edit("Last finding"))
    expect(page.locator(".current-entry .entry-words")).to_contain_text("Last finding")
    expect(find_card(page, "Reject a chunk whose checksum does not match")).to_be_visible()
    expect(find_card(page, ACTIVE_TASK)).to_have_class(re.compile("selected"))
    expect(find_card(page, RISK)).to_have_count(0)
    box_after = wait_until_stable(page, find_card(page, ACTIVE_TASK).bounding_box)
    assert (
        box_before
        and box_after
        and abs(box_before["x"] - box_after["x"]) < 2
        and abs(box_before["y"] - box_after["y"]) < 2
    )
    page.keyboard.press("0")
    expect(page.locator(".card[aria-label*=' finding']")).to_have_count(13)
    site.change_map(lambda document: add_node(document, "One more finding", "note"))
    expect(find_card(page, "One more finding")).to_have_class(re.compile("added"))
    site.change_map(
        lambda document: (
            remove_nodes(document, [find_id(document, ACTIVE_TASK)], create_timestamp(50)).document
        )
    )
    expect(page.locator("#side-body")).to_contain_text("This node was removed")


def test_search_and_filters(site: Site, session: PageSession) -> None:
    """Nodes that do not match are faded, Enter goes through the matches, and filters combine with words."""
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test?view=map")
    expect(find_card(page, RISK)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("resume_offset")
    expect(page.locator(".hits")).to_contain_text("1")
    expect(find_card(page, RISK)).to_have_class(re.compile("faded"))
    expect(page.locator(".search-results")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".node h2")).to_have_text(ACTIVE_TASK)
    expect(page.locator(".search-results")).to_have_count(0)
    for line, count in (
        ("file:storage", "1"),
        ("type:risk", "1"),
        ("status:blocked", "1"),
        ("no such words", "0"),
    ):
        page.locator("#search").fill(line)
        expect(page.locator(".hits")).to_have_text(f"{count} found")
    page.get_by_role("button", name="Clear search").click()
    page.get_by_role("button", name=re.compile("^Filter by")).click()
    page.get_by_label(re.compile("^Decision")).check()
    page.get_by_label("Show only matches").check()
    expect(page.locator(".card")).to_have_count(3)  # the match and its ancestors


def test_git_sync_and_lineage(site: Site, session: PageSession, tmp_path: Path) -> None:
    """A button attaches changed files to the active task, and "Why?" shows a file's lineage and its commits.

    Characters that change the direction of text are shown by their names.
    """
    repo = Repo.create(tmp_path / "work")
    repo.commit_file("media/uploads.py", "a = 1\n" * 130, "Accept uploads\n\nIn one piece")
    repo.commit_file(
        "media/uploads.py", "a = 1\n" * 50 + "b = 2  # \u202efine\n" + "a = 1\n" * 79, "Change \u2067b"
    )
    repo.write(
        "media/uploads.py",
        "a = 1\n" * 50 + "b = 2  # \u202efine\n" + "a = 1\n" * 19 + "c = 3\n" + "a = 1\n" * 60,
    )
    site.create_map(maps.create_small_map(str(repo.path)))
    page = session.open("#/map/mm_test")
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name="Attach changed files").click()
    expect(page.locator(".notice")).to_have_text("Git sync: 1 file attached.")
    page.get_by_role("button", name=re.compile("^media.uploads.py")).click()
    page.get_by_role("button", name="Why? Explain the lines of media/uploads.py").first.click()
    expect(page.get_by_role("button", name="Hide the explanation of media/uploads.py")).to_be_visible()
    expect(page.locator("#side-body .lineage").first).to_contain_text("Accept uploads")
    expect(page.locator("#side-body .lineage").first).to_contain_text("is not committed yet")
    page.get_by_role("button", name="Accept uploads").first.click()
    expect(page.locator(".commit-body").first).to_have_text("In one piece")
    expect(page.locator(".diff .added").first).to_have_text(re.compile("a = 1"))
    page.get_by_role("button", name="Change <U+2067>b").first.click()
    expect(page.locator(".diff .added").filter(has_text="b = 2")).to_have_text("+b = 2 # <U+202E>fine")


def test_hidden_characters_of_paths_and_symbols_are_shown(site: Site, session: PageSession) -> None:
    """A path or symbol with a control of text direction cannot look like another one."""
    document = maps.create_small_map("/work/\u202ecba")
    node_id = find_id(document, "UploadSession")
    touch = TouchInput(
        "photo_\u202egpj.py",
        "rename",
        previous_path="a\u202eb.py",
        symbols=("c\u202ed",),
        changes=maps.CHANGES,
    )
    site.create_map(maps.attach_file(document, node_id, 9, touch))
    page = session.open("#/map/mm_test")
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name=re.compile("^photo")).click()
    expect(page.locator(".touch").first).to_contain_text("photo_<U+202E>gpj.py")
    expect(page.locator(".touch").first).to_contain_text("was a<U+202E>b.py")
    assert "\u202e" not in page.locator("#side-body").inner_html()
    page.get_by_role("tab", name="Node").click()
    expect(page.locator(".workspace")).to_have_text("/work/<U+202E>cba")


def test_exports_are_complete(site: Site, session: PageSession) -> None:
    """Every export contains the labels, and the picture is well-formed and standalone."""
    document = site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test?view=map")
    for name in ("Picture", "Markdown", "Mermaid", "JSON"):
        page.get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            page.get_by_role("button", name=re.compile(f"^{name}")).click()
        content = Path(download.value.path()).read_text(encoding="utf-8")
        if name == "Picture":
            assert "light-dark" not in content
            content = " ".join(ElementTree.fromstring(content).itertext())  # noqa: S314 - our own output
        for word in ("Resumable", "UploadSession", "abandoned", "Postgres"):
            assert word in content, name
        assert document.title.split()[0] in download.value.suggested_filename


def test_follow(site: Site, session: PageSession) -> None:
    """With Follow on, an added node is selected and in view."""
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test")
    page.get_by_role("button", name="Follow the agent").click()
    site.change_map(lambda document: add_node(document, "Look at the proxy's buffering", status=IN_PROGRESS))
    expect(page.locator(".node h2")).to_have_text("Look at the proxy's buffering")
    expect(page.locator(".card.selected")).to_be_in_viewport()


def test_narrow_window(site: Site, session: PageSession) -> None:
    """In a narrow window nothing is cut off, and the panel leaves the selected card visible."""
    site.create_map(maps.create_small_map())
    session.page.set_viewport_size({"width": 700, "height": 800})
    page = session.open("#/map/mm_test")
    expect(page.locator(".pane")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    expect(page.locator(".side")).to_have_count(0)
    find_card(page, ACTIVE_TASK).click()
    page.get_by_role("button", name="Side panel").click()
    expect(page.locator(".side")).to_be_visible()
    expect(page.locator(".card.selected")).to_be_in_viewport(ratio=0.99)


def rotate(page: Page) -> None:
    """Turn a phone on its side, where it shows the map, and back."""
    page.set_viewport_size({"width": 800, "height": 390})
    expect(page.locator(".outline")).to_have_count(0)
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.locator(".outline")).to_be_visible()


def test_phone(site: Site, session: PageSession) -> None:
    """A phone shows progress and outline, or the map on a second tab, under one line; turning it changes neither."""
    site.create_map(maps.create_small_map())
    session.page.set_viewport_size({"width": 390, "height": 800})
    page = session.open("#/map/mm_test")
    expect(page.locator(".outline")).to_contain_text("1 of 5 tasks done, 1 in progress")
    expect(page.locator(".outline [aria-current='step']")).to_have_text(ACTIVE_TASK)
    assert get_rectangle(page.locator("header.top"))["height"] <= 56
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.locator(".outline-row")).to_have_count(11)
    page.locator(".outline .node-button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".outline .node-button").nth(1)).to_be_focused()
    page.get_by_role("button", name="Children of Accept chunks").click()
    expect(page.locator(".outline-row")).to_have_count(7)
    rotate(page)
    expect(page.locator(".outline-row")).to_have_count(7)
    page.locator("#search").fill("HEAD answers")
    page.keyboard.press("Enter")
    expect(page.locator(".outline-row.selected")).to_contain_text(ACTIVE_TASK)
    page.get_by_role("button", name=RISK).first.click()
    expect(page.locator(".node h2")).to_have_text(RISK)
    rotate(page)
    expect(page.locator(".node h2")).to_have_text(RISK)
    page.get_by_role("button", name="Close the panel").click()
    page.get_by_role("button", name="Map", exact=True).click()
    expect(page.locator(".card.selected")).to_be_in_viewport(ratio=0.99)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_outline_of_selected_node_collapses(site: Site, session: PageSession) -> None:
    """An ancestor of the selected node collapses, and toggling a row does not scroll to the task in progress."""
    site.create_map(maps.create_large_map(60, 4))
    session.page.set_viewport_size({"width": 390, "height": 500})
    page = session.open("#/map/mm_test")
    rows = page.locator(".outline-rows")
    expect(page.locator(".outline [aria-current='step']")).to_be_in_viewport(ratio=1)
    assert rows.evaluate("rows => rows.scrollTop") > 0
    first = page.locator(".outline-toggle[aria-expanded]").first
    for expanded in (
        ("false", "true") if first.get_attribute("aria-expanded") == "true" else ("true", "false")
    ):
        rows.evaluate("rows => { rows.scrollTop = 0; }")
        first.click()
        expect(first).to_have_attribute("aria-expanded", expanded)
        assert rows.evaluate("rows => rows.scrollTop") == 0
    parent = page.locator("li:has(> ul .outline-row.selected) > .outline-row > .outline-toggle").last
    page.locator(".outline ul ul .node-button").first.click()
    page.get_by_role("button", name="Close the panel").click()
    parent_name = parent.get_attribute("aria-label")
    parent.click()
    expect(page.locator(f".outline-toggle[aria-label={parent_name!r}]").first).to_have_attribute(
        "aria-expanded", "false"
    )
    expect(page.locator(".outline-row.selected")).to_have_count(0)


def test_accessibility(site: Site, session: PageSession) -> None:
    """axe finds no problem on sessions, maps, panels, questions and help, in light and dark."""
    document = maps.create_small_map("/nowhere")
    active = find_id(document, ACTIVE_TASK)
    site.create_map(ask_question(document, active, "Which?", ("This", "That"), create_timestamp(60)).document)
    page = session.page
    states = {
        "": [],
        "#/map/mm_test": [],
        "#/map/mm_test?view=map": ["g"],
        "#/map/mm_test?view=plan": ["["],
        "#/map/mm_test?view=model": ["?"],
    }
    for fragment, keys in states.items():
        page.goto("about:blank")
        session.open(fragment)
        expect(page.locator(".session, .card").first).to_be_visible()
        for key in keys:
            page.keyboard.press(key)
        assert not find_violations(page), fragment


# JavaScript function that returns the name of the focused element, or of all that the mouse can use. Arrow keys reach
# the other tabs of a list of tabs.
NAME_CONTROLS = """isFocused => {
  const all = document.querySelectorAll("button, a, input, summary, [role=tree], #side-body");
  const isTab = element => element.role === "tab" && element.ariaSelected === "false";
  const isUsable = element => element.checkVisibility() && !element.disabled && !isTab(element);
  return (isFocused ? [document.activeElement] : [...all].filter(isUsable))
    .map(element => `${element.ariaLabel ?? ""} ${element.textContent} ${element.id}`);
}"""


def test_keyboard_reaches_all(site: Site, session: PageSession) -> None:
    """The Tab key reaches everything that a mouse can click."""
    site.create_map(maps.create_small_map("/nowhere"))
    page = session.open("#/map/mm_test")
    find_card(page, ACTIVE_TASK).click()
    for tab in ("Node", "Files", "Activity"):
        page.get_by_role("tab", name=tab).click()
        missing = set(page.evaluate(NAME_CONTROLS, False))
        assert len(missing) > 20
        for _ in range(2 * len(missing)):
            page.keyboard.press("Tab")
            missing -= set(page.evaluate(NAME_CONTROLS, True))
        assert not missing, tab


def test_node_panel_follows_changes(site: Site, session: PageSession) -> None:
    """The panel of the selected node shows files attached to it later."""
    document = site.create_map(maps.create_small_map())
    page = session.open(f"#/map/mm_test/node/{find_id(document, RISK)}")
    expect(page.locator(".node h2")).to_have_text(RISK)
    touch = TouchInput("media/sweep.py", "create", summary="A nightly sweep")
    site.change_map(lambda document: maps.attach_file(document, find_id(document, RISK), 60, touch))
    expect(page.locator("#side-body")).to_contain_text("A nightly sweep")
