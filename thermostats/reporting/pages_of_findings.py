"""Pages about all claims that are made at once, from the findings that the claims' pages were written with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thermostats.claims.run import Run
from thermostats.claims.statements import must_agree
from thermostats.reporting import names as called
from thermostats.reporting import snapshot
from thermostats.reporting.pages import PAGES
from thermostats.reporting.pages import index as index_page
from thermostats.reporting.pages.bundle import bundle
from thermostats.reporting.pages.data import data_text
from thermostats.reporting.pages.entry import Entry, read_entry
from thermostats.reporting.pages.means import means_text
from thermostats.reporting.pages.methods import methods_text
from thermostats.reporting.pages.sources import counted as counted_sets
from thermostats.reporting.render import Page
from thermostats.reporting.state import BUNDLE, DATA, FILES, INDEX, MEANS, METHODS, State
from thermostats.tables import store


@dataclass(frozen=True)
class About:
    """What a report says of all claims."""

    state: State
    failed: Mapping[str, Run]
    """Analyses that gave nothing, by claim."""

    def check(self) -> None:
        """Raise DataError where two findings decide one statement both ways."""
        must_agree(finding for entry in self._entries() for finding in entry.findings)

    def files(self, name: str) -> dict[str, bytes]:
        """Files of one of these pages."""
        state = self.state
        if name == MEANS:
            return {"means.md": means_text(self._entries()).encode()}
        if name == METHODS:
            return {"methods.md": methods_text().encode()}
        if name == DATA:
            return {"data.md": data_text(state.layout, state.evidence.fork()).encode(), **state.layout.copies()}
        if name == INDEX:
            pictures = index_page.pictures_of(self._entries())
            return {called.INDEX: self._index_text().encode(), called.TABLE: self._findings(), **pictures}
        if name == BUNDLE:
            return self._bundle()
        raise KeyError(name)

    def snapshot(self) -> tuple[list[str], list[str]]:
        """Write what is kept under version control; files written and removed."""
        claims, pictures = list(self.state.scripts), {index_page.GAIN: index_page.gain_picture()}
        index = index_page.index_text(self._entries(), {}, "{}.md", sets=self._sets(), illustrated=False)
        return snapshot.snapshot(self.state.out, claims, index, self._findings(), pictures)

    def _index_text(self) -> str:
        state = self.state
        others = (*(name for name in (MEANS, METHODS, DATA) if name in state.about), *state.made())
        titles = {name: PAGES[name].title if name in PAGES else name.capitalize() for name in others}
        return index_page.index_text(self._entries(), titles, sets=self._sets(), command=state.command)

    def _sets(self) -> list[dict[str, Any]]:
        """Sets of evidence with their models and labs."""
        rows = counted_sets(self.state.evidence.fork()).to_dict("records")
        return [{str(name): value for name, value in row.items()} for row in rows]

    def _findings(self) -> bytes:
        return store.to_csv(index_page.findings_table(self._entries()), "findings")

    def _bundle(self) -> dict[str, bytes]:
        out = self.state.out
        sources = {file: out / file.replace(".html", ".md") for file in self.state.bundled() if file != "index.html"}
        pages = [Page("index.html", self._index_text())]
        pages += [Page(file, source.read_text(encoding="utf-8")) for file, source in sources.items()]
        return {FILES[BUNDLE]: bundle(pages, ["atlas.html"], lambda name: (out / name).read_bytes())}

    def _entries(self) -> list[Entry]:
        entries = []
        for claim in self.state.claims:
            path, run = self.state.out / called.findings_name(claim), self.failed.get(claim)
            if run is not None:
                entries.append(Entry(claim, run.claim, error=run.error))
            elif claim in self.state.records and path.is_file():
                entries.append(read_entry(path.read_bytes()))
            else:
                entries.append(Entry(claim, None))
        return entries
