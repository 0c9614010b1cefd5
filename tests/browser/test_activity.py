"""Activity log, changes while the tab was hidden, and the history of opened nodes."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from mindmap.document import COMPLETED, IN_PROGRESS, use_client
from mindmap.questions import ask_question
from tests.browser import maps
from tests.browser.conftest import PageSession, Site
from tests.browser.maps import ACTIVE_TASK, RISK, add_node, set_status
from tests.browser.measurements import SET_HIDDEN, find_card
from tests.mindmap.sample_maps import create_timestamp, find_id


def test_log(site: Site, session: PageSession) -> None:
    """A step through the log shows its entry, and selects and shows the entry's node without fading others."""
    document = site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test?view=map")
    expect(find_card(page, RISK)).to_be_visible()
    words = page.locator(".current-entry .entry-words")
    page.keyboard.press("[")
    expect(words).to_have_text("Renamed media/storage.py Named for what it keeps")
    expect(page.locator(".node h2")).to_have_text(ACTIVE_TASK)
    page.keyboard.press("[")
    expect(words).to_have_text("Read media/uploads.py")
    expect(page.locator(".node h2")).to_have_text("UploadSession")
    expect(find_card(page, ACTIVE_TASK)).to_have_class(re.compile("lit"))  # has the same file
    expect(page.locator(".card.faded")).to_have_count(0)
    slider = page.get_by_label("Position in the activity log")
    expect(slider).to_have_attribute("aria-valuetext", document.activity_log[1].message)
    slider.focus()
    page.keyboard.press("End")
    expect(page.locator(".card.lit")).to_have_count(2)  # those with links to the selected node
    expect(slider).to_have_attribute("aria-valuetext", "No entry selected")


def test_activity(site: Site, session: PageSession) -> None:
    """The log names each entry's node and opens it; a burst of entries is a group that opens to its nodes."""
    document = site.create_map(maps.create_small_map())
    for number in range(12):
        site.change_map(lambda document, label=f"Step {number}": add_node(document, label))  # type: ignore[misc]
    site.change_map(lambda document: set_status(document, "Step 11", IN_PROGRESS))
    page = session.open("#/map/mm_test?view=map")
    page.get_by_role("tab", name="Activity").click()
    entries = page.locator("#side-body > .entries > li")
    expect(entries.nth(0)).to_contain_text("Started Step 11")
    expect(entries.nth(1)).to_contain_text(f"Added 12 tasks under {maps.TITLE}")
    expect(entries.nth(2)).to_contain_text(ACTIVE_TASK)
    group = entries.nth(1).get_by_role("button")
    expect(group.first).to_be_hidden()
    entries.nth(1).locator("summary").click()
    expect(group).to_have_count(12)
    group.filter(has_text="Step 4").click()
    expect(page.locator(".node h2")).to_have_text("Step 4")
    page.get_by_role("tab", name="Activity").click()
    expect(page.locator(".entry[aria-current]")).to_contain_text("Step 4")
    manifest = find_id(document, "Store a manifest of received byte ranges for each upload")
    entries.get_by_role("button").filter(has_text="Created media/ranges.py").click()
    expect(page).to_have_url(re.compile(f"/node/{manifest}"))


def test_authors_and_icons(site: Site, session: PageSession) -> None:
    """An icon shows the kind of each entry. Entries name their authors, but only if several agents write the map."""
    document = site.create_map(maps.create_small_map())
    active = find_id(document, ACTIVE_TASK)
    with use_client("First agent"):
        site.change_map(lambda document: set_status(document, ACTIVE_TASK, COMPLETED))
    page = session.open("#/map/mm_test")
    page.get_by_role("tab", name="Activity").click()
    entries = page.locator("#side-body > .entries > li")
    expect(entries.nth(0)).to_contain_text(f"Completed {ACTIVE_TASK}")
    expect(entries.nth(0)).not_to_contain_text("First agent")
    with use_client("Second agent"):
        site.change_map(lambda document: add_node(document, "Sweep at night"))
        site.change_map(
            lambda document: ask_question(document, active, "Which?", (), create_timestamp(60)).document
        )
    for index, (words, author, icon) in enumerate(
        (
            ("Asked you: Which?", "Second agent", "t-hypothesis"),
            ("Added Sweep at night", "Second agent", "tool"),
            (f"Completed {ACTIVE_TASK}", "First agent", "t-task s-completed"),
            ("Renamed media/storage.py", "", "t-file"),
        )
    ):
        expect(entries.nth(index)).to_contain_text(words)
        expect(entries.nth(index).locator(".glyph")).to_have_class(re.compile(f"{icon}$"))
        expect(entries.nth(index).locator(".entry-facts")).to_contain_text(author)
    expect(page.get_by_role("region", name="Question")).to_contain_text("Second agent asks about")


def test_questions_and_comments(site: Site, session: PageSession) -> None:
    """A question stands above the map and on its card until the user answers it; a comment is kept at its node."""
    document = site.create_map(maps.create_small_map())
    active = find_id(document, ACTIVE_TASK)
    page = session.open("#/map/mm_test")
    expect(find_card(page, ACTIVE_TASK)).to_be_visible()
    texts = (("Which proxy runs there?", ("nginx", "HAProxy")), ("How long may a chunk take?", ()))
    for minutes, (text, options) in enumerate(texts):
        site.change_map(
            lambda document, text=text, options=options, minutes=minutes: (  # type: ignore[misc]
                ask_question(document, active, text, options, create_timestamp(60 + minutes)).document
            )
        )
    banner = page.get_by_role("region", name="Question")
    expect(banner).to_contain_text(f"An agent asks about {ACTIVE_TASK} · 1 more open")
    expect(find_card(page, ACTIVE_TASK).locator(".remark").first).to_contain_text("Asks you: Which")
    banner.get_by_role("button", name="HAProxy").click()
    expect(banner).to_contain_text("How long may a chunk take?")
    banner.get_by_label("Answer").press_sequentially("e 20 s ?")  # keys of the page are text here
    page.keyboard.press("Enter")
    expect(banner).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)
    find_card(page, ACTIVE_TASK).click()
    comment = page.get_by_label("Comment for the agent")
    comment.fill("The proxy is out of our hands")
    comment.evaluate("field => { field.form.requestSubmit(); field.form.requestSubmit(); }")  # sent once
    expect(page.locator(".talk")).to_contain_text(["HAProxy", "The proxy is out of our hands"])
    expect(page.locator(".talk").first).to_contain_text("the agent that asked gets it with its next call")
    node = site.maps.read("mm_test").nodes[active]
    assert [question.answer for question in node.questions] == ["HAProxy", "e 20 s ?"]
    assert [comment.text for comment in node.comments] == ["The proxy is out of our hands"]
    expect(comment).to_have_value("")
    comment.fill("Half a comm")
    page.goto(f"{session.address}#/map/mm_test/node/{document.nodes[active].parent}")
    expect(comment).to_have_value("")  # another node has its own field


def test_dismissed_question(site: Site, session: PageSession) -> None:
    """A question that the user puts off leaves the top, also after a reload, and is answered from its card."""
    document = maps.create_small_map()
    active = find_id(document, ACTIVE_TASK)
    for minutes, text in enumerate(("Which proxy?", "How long?")):
        document = ask_question(document, active, text, (), create_timestamp(60 + minutes)).document
    site.create_map(document)
    page = session.open("#/map/mm_test")
    banner = page.get_by_role("region", name="Question")
    expect(banner).to_contain_text("1 more open")
    banner.get_by_role("button", name="Answer later").click()
    expect(banner).to_contain_text("How long?")
    page.reload()
    expect(banner).to_contain_text("How long?")
    banner.get_by_role("button", name="Answer later").click()
    expect(banner).to_have_count(0)
    expect(find_card(page, ACTIVE_TASK).locator(".remark").first).to_contain_text("Asks you: Which proxy?")
    find_card(page, ACTIVE_TASK).click()
    page.get_by_label("Answer", exact=True).first.fill("nginx")
    page.keyboard.press("Enter")
    expect(page.locator(".talk")).to_contain_text(["nginx"])


def test_changes_while_away(site: Site, session: PageSession) -> None:
    """After a return to the tab, new and changed nodes are marked and counted until they are selected."""
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test")
    expect(find_card(page, ACTIVE_TASK)).to_be_visible()
    expect(page.locator(".connection")).to_have_text("Live")
    page.evaluate(SET_HIDDEN, True)
    site.change_map(lambda document: set_status(document, ACTIVE_TASK, COMPLETED))
    with page.context.new_page() as other:
        other.goto(page.url)
        expect(other.locator(".card.s-completed")).to_have_count(2)  # the hidden tab has the event too
    page.evaluate(SET_HIDDEN, False)
    expect(page.locator(".banner")).to_contain_text("1 changed since you looked")
    expect(find_card(page, ACTIVE_TASK).locator(".unseen")).to_have_text("Changed")
    page.reload()
    expect(page.locator(".banner")).to_contain_text("1 changed since you looked")
    expect(find_card(page, ACTIVE_TASK).locator(".unseen")).to_have_text("Changed")
    page.get_by_role("button", name="Show next").click()
    expect(page.locator(".node h2")).to_have_text(ACTIVE_TASK)
    expect(page.locator(".banner")).to_have_count(0)
    expect(page.locator(".unseen")).to_have_count(0)


# JavaScript function that checks whether all of an element's text has room in it.
IS_COMPLETE = """element => {
  const text = document.createRange();
  text.selectNodeContents(element);
  return text.getBoundingClientRect().width <= element.getBoundingClientRect().width;
}"""


def test_history_of_nodes(site: Site, session: PageSession) -> None:
    """Back steps through the opened nodes, in a window of 1,400 pixels that shows the complete title."""
    site.create_map(maps.create_small_map())
    session.page.set_viewport_size({"width": 1400, "height": 900})
    page = session.open("#/map/mm_test")
    title = page.locator(".title h1")
    expect(title).to_have_text(maps.TITLE)
    assert title.evaluate(IS_COMPLETE)
    find_card(page, ACTIVE_TASK).click()
    find_card(page, "UploadSession").click()
    page.get_by_role("tab", name="Files").click()
    page.go_back()
    expect(page.locator(".node h2")).to_have_text(ACTIVE_TASK)
    page.go_back()
    expect(page.locator(".card.selected")).to_have_count(0)
