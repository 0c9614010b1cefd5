"""What the routes of one viewer share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from serve.answering import Answering
from serve.viewer.documents import Documents
from serve.viewer.doors import Doors
from serve.viewer.news import News
from serve.viewer.page import Page
from serve.viewer.threads import Threads
from serve.viewer.watching import Watching


@dataclass(slots=True)
class Viewer:
    """What the routes share; made on the event loop."""

    folder: Path
    port: int
    answering: Answering
    page: Page = field(default_factory=Page)
    listeners: int = 0
    threads: Threads = field(default_factory=Threads)
    news: News = field(default_factory=News)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    doors: Doors = field(init=False)
    documents: Documents = field(init=False)
    watching: Watching = field(init=False)

    def __post_init__(self) -> None:
        """Put the parts together."""
        self.doors = Doors(self.port)
        self.documents = Documents(self.folder)
        self.watching = Watching(self.folder, self.news.tell)
