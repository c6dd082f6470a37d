"""Articles of the page of all pages, kept from one report to the next: most pages are as they
were."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from thermostats.reporting.render import Page
from thermostats.reporting.state import hash_content, hash_package, hash_value
from thermostats.tables.store import cache_folder, write_cache

ReadFile = Callable[[str], bytes]
"""Content of a file of the report, by its name."""


class Articles:
    """HTML of pages within the page of all pages, as it was made of the same text, of the same
    files and by the same package, or made now.

    names: files of all pages that it holds, which links lead to.
    """

    def __init__(self, names: Collection[str], read: ReadFile) -> None:
        self.key = hash_value([hash_package(), sorted(names)])
        self.read = read
        self.folder = cache_folder()

    def render(self, page: Page, make: Callable[[ReadFile], str]) -> str:
        """A page's article; `make` makes it and gets what reads files."""
        key = hash_value([self.key, page.name, page.text])
        path = self.folder / "articles" / f"{page.anchor}.html" if self.folder else None
        kept = Article.read(path) if path else None
        if kept is not None and kept.key == key and kept.is_fresh(self.read):
            return kept.html
        files: dict[str, str] = {}

        def read_file(name: str) -> bytes:
            content = self.read(name)
            files[name] = hash_content(content)
            return content

        made = Article(key, files, make(read_file))
        if path:
            write_cache(path, made.encode())
        return made.html


@dataclass(frozen=True)
class Article:
    """An article, the SHA-256 of what it was made of, and that of the files that were read for
    it."""

    key: str
    files: dict[str, str]
    html: str

    @property
    def checksum(self) -> str:
        """SHA-256 of all of it."""
        return hash_value([self.key, self.files, self.html])

    @classmethod
    def read(cls, path: Path) -> Article | None:
        """The one that a file keeps; None where there is none, or it was edited."""
        try:
            head, _, html = path.read_bytes().partition(b"\n")
            checksum, key, files = json.loads(head)
            article = cls(key, dict(files), html.decode())
        except (OSError, ValueError, TypeError):
            return None
        return article if article.checksum == checksum else None

    def encode(self) -> bytes:
        """The bytes of its file."""
        head = json.dumps([self.checksum, self.key, self.files])
        return f"{head}\n{self.html}".encode()

    def is_fresh(self, read: ReadFile) -> bool:
        """Whether the files that were read for it are as they were."""
        try:
            return all(hash_content(read(name)) == digest for name, digest in self.files.items())
        except OSError:
            return False
