"""What to cite: the package, the study, the libraries that fits rest on, and other sources of the rows in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import thermostats
from thermostats.claims.study import Study, studies
from thermostats.tables import store
from thermostats.tables.identities import OURS
from thermostats.tables.vocabulary import NURSERY


@dataclass(frozen=True)
class Citation:
    """One BibTeX entry."""

    kind: str
    key: str
    fields: Mapping[str, str]
    why: str
    """What it was used for."""

    def __str__(self) -> str:
        """The entry with its reason before it."""
        lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in self.fields.items())
        return f"% {self.why}\n@{self.kind}{{{self.key},\n{lines}\n}}\n"


PACKAGE = Citation(
    "software",
    "thermostats",
    {
        "author": "{the thermostats developers}",
        "title": "thermostats: statistical modelling and hypothesis testing of residual-stream gains in transformers",
        "version": thermostats.__version__,
        "year": "2026",
    },
    "the package",
)
LIBRARIES = (
    Citation(
        "article",
        "pymc",
        {
            "author": "Abril-Pla, Oriol and Andreani, Virgile and Carroll, Colin and others",
            "title": "{PyMC}: a modern, and comprehensive probabilistic programming framework in {Python}",
            "journal": "PeerJ Computer Science",
            "volume": "9",
            "pages": "e1516",
            "year": "2023",
            "doi": "10.7717/peerj-cs.1516",
        },
        "fitted models",
    ),
    Citation(
        "article",
        "arviz",
        {
            "author": "Kumar, Ravin and Carroll, Colin and Hartikainen, Ari and Martin, Osvaldo",
            "title": "{ArviZ} a unified library for exploratory analysis of {Bayesian} models in {Python}",
            "journal": "Journal of Open Source Software",
            "volume": "4",
            "number": "33",
            "pages": "1143",
            "year": "2019",
            "doi": "10.21105/joss.01143",
        },
        "checks of fitted models",
    ),
    Citation("software", "nutpie", {"title": "{nutpie}", "url": "https://github.com/pymc-devs/nutpie"}, "sampling"),
)
MEASURING = Citation(
    "inproceedings",
    "transformers",
    {
        "author": "Wolf, Thomas and Debut, Lysandre and Sanh, Victor and others",
        "title": "Transformers: State-of-the-Art Natural Language Processing",
        "booktitle": "Proceedings of EMNLP 2020: System Demonstrations",
        "year": "2020",
        "doi": "10.18653/v1/2020.emnlp-demos.6",
    },
    "measuring models",
)


def cited(data: str | Path | None = None) -> tuple[Citation, ...]:
    """What to cite for the rows of a data folder and what is fitted to them."""
    runs, sources = store.load("runs", data), store.load("sources", data)
    used = sorted(set(runs["source"]))
    files = sources[sources["file"].isin(used)]
    here = [name for name in used if name in {OURS, NURSERY}]
    others = [name for name in used if name not in {*here, *files["file"]}]
    return (
        PACKAGE,
        *(_of_study(study) for study in studies().values() if study.citation and study.source in set(files["doi"])),
        *(_with_version(library) for library in LIBRARIES),
        *([_with_version(MEASURING)] if here else []),
        *(_other(number, name) for number, name in enumerate(others, 1)),
    )


def citations(data: str | Path | None = None) -> str:
    """BibTeX entries of what to cite for the rows of a data folder and what is fitted to them, each with its reason."""
    return "\n".join(map(str, cited(data)))


def _with_version(library: Citation) -> Citation:
    """A library's entry with the version that is installed."""
    try:
        note = {"note": f"version {version(library.key)}"}
    except PackageNotFoundError:
        note = {}
    return replace(library, fields={**library.fields, **note})


def _of_study(study: Study) -> Citation:
    fields = {name: value for name, value in study.citation.items() if name != "key"}
    why = "the study whose figures are in the tables and whose claims are tested"
    return Citation("misc", study.citation["key"], fields, why)


def _other(number: int, name: str) -> Citation:
    """An entry to be filled in, for rows that came from elsewhere."""
    return Citation(
        "misc", f"source{number}", {"title": f"{{{name}}}"}, "rows joined from this source; add its authors"
    )
