"""The viewer's page, driven as a person drives it while agents write."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from mindmap.document import ACTIVE, CHANGE_KINDS, DONE, ROOT, Mindmap
from mindmap.file_touches import Touch
from mindmap.nodes import NewNode, NodeUpdate, add_nodes, remove_nodes, update_nodes
from tests.browser import maps
from tests.browser.conftest import Looking, Site
from tests.browser.maps import HEAD
from tests.browser.measurements import at_rest, card
from tests.mindmap.sample_maps import id_of, moment
from tests.repos import Repo

RISK = "Scratch files of abandoned uploads fill the disk"


def noting(label: str) -> Callable[[Mindmap], Mindmap]:
    return lambda document: grown(document, label, "note")


def grown(document: Mindmap, label: str, kind: str = "task", status: str | None = None) -> Mindmap:
    return add_nodes(document, ROOT, [NewNode(label, kind, status)], moment(30)).document


def set_to(document: Mindmap, label: str, status: str) -> Mindmap:
    return update_nodes(document, [NodeUpdate(id_of(document, label), status=status)], moment(40)).document


def test_sessions_are_listed_newest_first_and_lead_to_their_map(site: Site, looking: Looking) -> None:
    """The list says how each map stands, follows what is written, and a click opens one."""
    site.write(maps.small())
    page = looking.open()
    first = page.locator(".session").first
    expect(first).to_contain_text(maps.TITLE)
    for said in (HEAD, "1 of 5 tasks", "12 nodes", "3 files"):
        expect(first).to_contain_text(said)
    site.write(maps.large(30, 3), "mm_other")
    expect(page.locator(".session")).to_have_count(2)
    expect(first).to_contain_text("Platform migration")
    page.get_by_role("link", name=re.compile("Resumable")).click()
    expect(page).to_have_url(re.compile("#/map/mm_test$"))
    expect(page.get_by_role("heading", level=1)).to_have_text(maps.TITLE)


def test_plan_and_model_stand_side_by_side_and_light_each_other_up(site: Site, looking: Looking) -> None:
    """Choosing a task lights up the component and the file that it meets, on the other side."""
    site.write(maps.small())
    page = looking.open("#/map/mm_test")
    expect(card(page, HEAD, "plan")).to_be_visible()
    expect(card(page, HEAD, "model")).to_have_count(0)
    card(page, HEAD).click()
    expect(card(page, "UploadSession", "model")).to_have_class(re.compile(r"\blit\b"))
    expect(card(page, RISK, "model")).not_to_have_class(re.compile(r"\blit\b"))
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name=re.compile("^media.uploads.py")).click()
    expect(card(page, RISK)).to_have_class(re.compile("faded"))
    expect(card(page, HEAD)).not_to_have_class(re.compile("faded"))


def test_an_address_leads_to_a_node_in_a_view(site: Site, looking: Looking) -> None:
    """A link to a node opens its view, its branch and its panel, and what is chosen is in the address."""
    document = site.write(maps.large(300, 20))
    deep = next(node for node in document.nodes.values() if node.label.startswith("Pin the clock"))
    page = looking.open(f"#/map/mm_test/node/{deep.id}?view=plan")
    expect(page.locator(".pane")).to_have_count(1)
    expect(page.locator(f"[data-id='{deep.id}']")).to_have_class(re.compile("selected"))
    expect(page.locator(".node h2")).to_have_text(deep.label)
    page.keyboard.press("2")
    expect(page).to_have_url(re.compile(r"view=map$"))


def test_the_node_panel_tells_files_changes_and_links(site: Site, looking: Looking) -> None:
    """Every kind of change has its glyph and its label; actions, lines, symbols and old paths are told."""
    site.write(maps.small())
    page = looking.open("#/map/mm_test")
    card(page, HEAD).click()
    panel = page.locator("#side-body")
    expect(panel.locator(".change")).to_have_text(list(CHANGE_KINDS.values()))
    labels = ["Added", "Modified", "Fixed", "Refactored", "Renamed", "Removed", "Tested"]
    expect(panel.locator(".change-label")).to_have_text(labels)
    for said in (
        "media/uploads.py",
        ":40-88",
        "HEAD answers the end of the first gap",
        "media/files.py",
        "reads",
    ):
        expect(panel).to_contain_text(said)
    panel.get_by_role("button", name="UploadSession").first.click()
    expect(page.locator(".node h2")).to_have_text("UploadSession")


def test_what_agents_write_shows_at_once_and_moves_nothing(site: Site, looking: Looking) -> None:
    """Two writers at once: all they did arrives and is marked; selection, folding and view stay."""
    site.write(maps.small())
    page = looking.open("#/map/mm_test")
    card(page, HEAD).click()
    page.keyboard.press("+")
    model_head = card(page, "How uploads work today")
    model_head.hover()
    model_head.locator(".toggle").click()
    expect(card(page, RISK)).to_have_count(0)
    card(page, HEAD).click()
    before = at_rest(page, card(page, HEAD).bounding_box)

    def write(name: str) -> None:
        for number in range(6):
            site.change(noting(f"{name} finding {number}"))

    writers = [threading.Thread(target=write, args=(name,)) for name in ("First", "Second")]
    for writer in writers:
        writer.start()
    site.change(lambda document: set_to(document, HEAD, DONE))
    expect(card(page, HEAD)).to_have_class(re.compile("s-completed.*changed"))
    for writer in writers:
        writer.join()
    expect(card(page, "Reject a chunk whose checksum does not match")).to_be_visible()
    expect(card(page, HEAD)).to_have_class(re.compile("selected"))
    expect(card(page, RISK)).to_have_count(0)
    page.wait_for_timeout(1_500)
    after = at_rest(page, card(page, HEAD).bounding_box)
    assert before and after and abs(before["x"] - after["x"]) < 2 and abs(before["y"] - after["y"]) < 2
    page.keyboard.press("0")
    expect(page.locator(".card[aria-label*=' finding ']")).to_have_count(12)
    site.change(lambda document: grown(document, "One more finding", "note"))
    expect(card(page, "One more finding")).to_have_class(re.compile("added"))
    site.change(lambda document: remove_nodes(document, [id_of(document, HEAD)], moment(50)).document)
    expect(page.locator("#side-body")).to_contain_text("This node was removed")


def test_search_and_filters_find_by_text_type_status_and_file(site: Site, looking: Looking) -> None:
    """What is not found steps back; Enter goes through what is; filters add to words."""
    site.write(maps.small())
    page = looking.open("#/map/mm_test?view=map")
    expect(card(page, RISK)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("resume_offset")
    expect(page.locator(".hits")).to_contain_text("1")
    expect(card(page, RISK)).to_have_class(re.compile("faded"))
    page.keyboard.press("Enter")
    expect(page.locator(".node h2")).to_have_text(HEAD)
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
    page.get_by_label("Show only what is found").check()
    expect(page.locator(".card")).to_have_count(3)  # it, and the way to it


def test_the_activity_line_steps_back_and_lights_up_what_it_names(site: Site, looking: Looking) -> None:
    """Each step shows its entry and lights up its node alone; the end of the line is live again."""
    document = site.write(maps.small())
    page = looking.open("#/map/mm_test?view=map")
    expect(card(page, RISK)).to_be_visible()
    page.keyboard.press("[")
    expect(page.locator(".told-message")).to_have_text(document.activity_log[0].message)
    expect(card(page, HEAD)).to_have_class(re.compile("lit"))
    page.keyboard.press("[")
    expect(card(page, "UploadSession")).to_have_class(re.compile("lit"))
    expect(card(page, HEAD)).to_have_class(re.compile("lit"))  # it has the same file
    expect(card(page, RISK)).to_have_class(re.compile("faded"))
    slider = page.get_by_label("Place in the activity log")
    expect(slider).to_have_attribute("aria-valuetext", document.activity_log[1].message)
    slider.focus()
    page.keyboard.press("End")
    expect(page.locator(".card.faded")).to_have_count(0)
    page.get_by_role("tab", name="Activity").click()
    page.locator(".entries button").nth(2).click()
    expect(page).to_have_url(re.compile(f"/node/{document.activity_log[2].node_id}"))


def test_sync_attaches_what_git_says_and_tells_how_much(site: Site, looking: Looking, tmp_path: Path) -> None:
    """The button runs git sync in the map's workspace; why? asks for a file's lineage there."""
    repo = Repo.create(tmp_path / "work")
    repo.commit_file("media/uploads.py", "a = 1\n" * 130, "Accept uploads")
    repo.write("media/uploads.py", "a = 1\n" * 70 + "b = 2\n" + "a = 1\n" * 60)
    site.write(maps.small(str(repo.path)))
    page = looking.open("#/map/mm_test")
    page.get_by_role("button", name="Attach what git says").click()
    expect(page.locator(".notice")).to_have_text("Git sync: 1 file attached.")
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name=re.compile("^media.uploads.py")).click()
    page.get_by_role("button", name=re.compile("^Why")).first.click()
    expect(page.locator("#side-body .why").first).to_contain_text("Accept uploads")
    expect(page.locator("#side-body .why").first).to_contain_text("is not committed yet")


@pytest.mark.parametrize("form", ["Picture", "Markdown", "Mermaid", "JSON"])
def test_exports_are_whole(site: Site, looking: Looking, form: str) -> None:
    """A file of each kind has every label in it, and the picture is well-formed and stands by itself."""
    document = site.write(maps.small())
    page = looking.open("#/map/mm_test?view=map")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name=re.compile(f"^{form}")).click()
    text = Path(saved.value.path()).read_text(encoding="utf-8")
    if form == "Picture":
        said = " ".join(ElementTree.fromstring(text).itertext())  # noqa: S314 - our own
        assert "light-dark" not in text
    else:
        said = text
    for word in ("Resumable", "UploadSession", "abandoned", "Postgres"):
        assert word in said
    assert document.title.split()[0] in saved.value.suggested_filename


def test_following_goes_where_the_agent_is(site: Site, looking: Looking) -> None:
    """With Follow on, what is written last is selected and in view."""
    site.write(maps.small())
    page = looking.open("#/map/mm_test")
    page.get_by_role("button", name="Follow what agents do").click()
    site.change(lambda document: grown(document, "Look at the proxy's buffering", status=ACTIVE))
    expect(page.locator(".node h2")).to_have_text("Look at the proxy's buffering")
    expect(page.locator(".card.selected")).to_be_in_viewport()


def test_nothing_is_said_to_be_nothing(site: Site, looking: Looking) -> None:
    """An empty folder says how maps come to be, and the first one shows up by itself."""
    page = looking.open()
    expect(page.locator(".state")).to_contain_text("mindmap register")
    expect(page.locator(".state")).to_contain_text(str(site.maps.path))
    site.write(maps.small())
    expect(page.locator(".session")).to_have_count(1)


def test_a_broken_file_is_named_and_hides_no_other(site: Site, looking: Looking) -> None:
    """A damaged file is listed with its reason beside the maps; its address says the same."""
    looking.quiet = True  # the console notes the refused request
    site.write(maps.small())
    (site.maps.path / "mm_bad.json").write_text('{"title": "cut sho')
    page = looking.open()
    expect(page.locator(".session")).to_have_count(1)
    expect(page.locator(".broken")).to_contain_text("mm_bad is damaged")
    looking.open("#/map/mm_bad")
    expect(page.get_by_role("alert")).to_contain_text("mm_bad is damaged")
    looking.open("#/map/mm_none")
    expect(page.get_by_role("alert")).to_contain_text("This map is not here")


def test_offline_says_so_and_keeps_what_is_shown(site: Site, looking: Looking) -> None:
    """When the viewer ends, the map stays and the page says that it may be old."""
    looking.quiet = True  # the console notes that nobody answers
    site.write(maps.small())
    page = looking.open("#/map/mm_test")
    expect(page.locator(".connection")).to_have_text("Live")
    site.end()
    expect(page.locator(".connection")).to_have_text("Offline")
    expect(page.get_by_role("alert")).to_contain_text("Start it again with mindmap viewer")
    expect(card(page, HEAD)).to_be_visible()


def test_a_deleted_map_says_so(site: Site, looking: Looking) -> None:
    """What is shown stays, with a word on top."""
    looking.quiet = True  # the console notes the refused request
    site.write(maps.small())
    page = looking.open("#/map/mm_test")
    expect(card(page, HEAD)).to_be_visible()
    site.maps.delete("mm_test")
    expect(page.get_by_role("alert")).to_contain_text("This map was deleted")


def test_a_narrow_window_has_it_all(site: Site, looking: Looking) -> None:
    """On a phone's width nothing is cut off to the side, and the panel opens over half of it."""
    site.write(maps.small())
    looking.page.set_viewport_size({"width": 390, "height": 800})
    page = looking.open("#/map/mm_test")
    expect(page.locator(".pane")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.locator(".side")).to_have_count(0)
    card(page, RISK).click()
    page.get_by_role("button", name="Side panel").click()
    expect(page.locator(".side")).to_be_visible()
    expect(page.locator(".card.selected")).to_be_in_viewport(ratio=0.99)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(site: Site, looking: Looking, scheme: Literal["light", "dark"]) -> None:
    """Sessions, map, panels and help, light and dark: names, roles and contrasts hold."""
    site.write(maps.small("/nowhere"))
    page = looking.page
    page.emulate_media(color_scheme=scheme)
    states = {
        "": [],
        "#/map/mm_test": [],
        "#/map/mm_test?view=map": ["g"],
        "#/map/mm_test?view=plan": ["["],
        "#/map/mm_test?view=model": ["?"],
    }
    for place, keys in states.items():
        page.goto("about:blank")
        looking.open(place)
        expect(page.locator(".session, .card").first).to_be_visible()
        for key in keys:
            page.keyboard.press(key)
        found = Axe().run(page).response["violations"]
        bad = [
            (one["id"], [node["html"] for node in one["nodes"]][:3])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert not bad, place


def test_a_file_that_is_touched_meanwhile_is_told_in_the_panel(site: Site, looking: Looking) -> None:
    """The panel of the node that is read follows what is attached to it."""
    document = site.write(maps.small())
    page = looking.open(f"#/map/mm_test/node/{id_of(document, RISK)}")
    expect(page.locator(".node h2")).to_have_text(RISK)
    touch = Touch("media/sweep.py", "create", summary="A nightly sweep")
    site.change(lambda document: maps.touched(document, id_of(document, RISK), 60, touch))
    expect(page.locator("#side-body")).to_contain_text("A nightly sweep")
