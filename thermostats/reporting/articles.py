"""Articles of the page of all pages, kept from one report to the next: most pages are as they
were."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from thermostats.claims.memo import Memo, Version
from thermostats.reporting.render import Page
from thermostats.reporting.state import hash_content, hash_package, hash_value

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

    def render(self, page: Page, make: Callable[[ReadFile], str]) -> str:
        """A page's article; `make` makes it and gets what reads files."""
        key = hash_value([self.key, page.name, page.text])
        memo = Memo(f"articles/{page.anchor}", key)
        part = (page.name, "")
        is_fresh = partial(_is_fresh, self.read)
        version = memo.find_readable(part, is_fresh) or self._make(make)
        memo.keep(part, version)
        memo.write()
        html: str = version.value
        return html

    def _make(self, make: Callable[[ReadFile], str]) -> Version:
        """An article that is made now, with the files that were read for it."""
        files: dict[str, str] = {}

        def read_file(name: str) -> bytes:
            content = self.read(name)
            files[name] = hash_content(content)
            return content

        return Version.hold(make(read_file), files)


def _is_fresh(read: ReadFile, version: Version) -> bool:
    """Whether the files that were read for an article are as they were."""
    try:
        for name, digest in version.made_of.items():
            if hash_content(read(name)) != digest:
                return False
    except OSError:
        return False
    return True
