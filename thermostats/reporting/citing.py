"""What to cite: the package, the study, the libraries that fits use, and other sources of the rows in use."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from thermostats.claims.study import studies
from thermostats.reporting.posteriors import machine, versions
from thermostats.tables import store
from thermostats.tables.schemas import NURSERY, OURS

OF_STUDY = "the study whose figures are in the tables and whose claims are tested"
BUILT_ON = "what that study builds on: the stream as a sum, sheaves and their Laplacians"
OF_OTHERS = "rows joined from this source; add its authors"


@dataclass(frozen=True)
class Citation:
    """One BibTeX entry."""

    kind: str
    key: str
    fields: dict[str, str]
    why: str
    """What it was used for."""

    def __str__(self) -> str:
        """The entry with its reason before it."""
        lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in self.fields.items())
        return f"% {self.why}\n@{self.kind}{{{self.key},\n{lines}\n}}\n"


def cited(data: str | Path | None = None) -> tuple[Citation, ...]:
    """What to cite for the rows of a data folder and what is fitted to them."""
    runs, sources = store.load("runs", data), store.load("sources", data)
    used = set(runs["source"])
    published = sources[sources["file"].isin(used)]
    citations = tomllib.loads((files("thermostats.reporting") / "citations.toml").read_text("utf-8"))
    if not used & {OURS, NURSERY}:
        del citations["transformers"]
    package, *libraries = (Citation(key=key, **entry) for key, entry in citations.items())
    package.fields["version"] = machine()["thermostats"]
    for library in libraries:
        if installed := versions(library.key):
            library.fields["note"] = f"version {installed[library.key]}"
    used_studies = [study for study in studies().values() if study.source in set(published["doi"])]
    held = [(study.citation, OF_STUDY) for study in used_studies if study.citation]
    held += [(entry, BUILT_ON) for study in used_studies for entry in study.builds_on]
    others = sorted(used - {OURS, NURSERY, *published["file"]})
    return (
        package,
        *(Citation("misc", e["key"], {name: e[name] for name in e if name != "key"}, why) for e, why in held),
        *libraries,
        *(Citation("misc", f"source{i}", {"title": f"{{{name}}}"}, OF_OTHERS) for i, name in enumerate(others, 1)),
    )


def citations(data: str | Path | None = None) -> str:
    """BibTeX entries of what to cite for the rows of a data folder and what is fitted to them, each with its reason."""
    return "\n".join(map(str, cited(data)))
