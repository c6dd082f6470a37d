"""The words of a claim: a Markdown file next to its analysis, with placeholders for numbers.

    # C04 Heritage > geometry > scale
    Source: abstract, section 7
    Rows: study and measured
    Measures: gains
    Modality: because

    ## Said
    Who trained a model matters more …

    ## Answer
    supported: Who trained a model matters more …
    inconclusive: These models are too few …

    ## Practice
    supported: Ask who trained a model before you ask how large it is.

    ## Settles
    too little data: More labs with several models each.

    ## Identification
    Not causal: labs were assigned to no model. Shares are identified if … Should that fail, …

    ## Exact
    {% set heads = effects("r03-1", "W_V × 8 and W_O / 8 in every block") %}
    What holds whatever was measured; `effects` is that of `tables/invariants.py` …

    ## order
    ### estimand
    share of variance of heritage minus that of geometry, {{ gain.words }}
    ### plain
    {{ verdict.sentence }}: over {{ n_models }} models …
    ### short
    One short sentence for the index, of a finding that does not head its claim …
    ### could
    What the rule could have shown, where the analysis itself tried it and no worlds are declared …
    ### caption
    Shares of the variance …
    ### model
    Heritage model of the log gain …
    ### notes
    - One sentence, or several; a note that comes out empty is left out.

A heading of level two is a finding's name (`trace.trained`) or its first part (`trace`); a heading
of level three is a part of its words. Placeholders are Jinja's, and filters are the functions of
`thermostats.formatting`. The rule is not written here, since it states itself. A section History
lists how it changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2

from thermostats import formatting
from thermostats.errors import DataError
from thermostats.tables.invariants import ALLOWED, list_raw_and_read, read_effects

FILTERS = MappingProxyType(
    {
        "number": formatting.format_number,
        "figure": formatting.format_figure,
        "relation": formatting.format_p_value,
        "chance": formatting.format_chance,
        "listed": formatting.join_words,
        "plural": formatting.format_count,
        "range_text": formatting.format_range,
        "percent": formatting.format_percent,
        "short_name": formatting.strip_owner,
        "signed": formatting.format_signed_percent,
        "estimate_range": formatting.estimate_range,
        "with_interval": formatting.format_estimate,
        "declared": formatting.format_declared,
    }
)
"""What templates may put a value through, by the name that stands behind the bar."""


@dataclass(frozen=True)
class Template:
    """The words of one claim."""

    path: Path
    id: str
    title: str
    facts: Mapping[str, str]
    """Lines `Key: value` under the title, keys in lower case."""
    sections: Mapping[str, Mapping[str, str]]
    """Parts by finding; text under a finding's own heading has the name ``""``."""

    @classmethod
    def read(cls, path: Path) -> Template:
        """Read a file; raises DataError where it has no title or cannot be read."""
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise DataError(
                "the Markdown file of an analysis is missing",
                where=path.name,
                got=error.strerror,
                allowed="a Markdown file of the same name",
            ) from error
        title = re.match(r"# +(\S+) +(.+)\n", text)
        if title is None:
            raise DataError(
                "the words of a claim must begin with its title",
                where=path.name,
                allowed="# C04 Heritage > …",
            )
        head, *parts = re.split(r"^## +(.+)\n", text[title.end() :], flags=re.M)
        lines = re.findall(r"^(\w+): *(.+)$", head, flags=re.M)
        facts = {key.lower(): value for key, value in lines}
        sections = {}
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            sections[name.strip()] = _split_parts(body)
        return cls(path, title[1], title[2].strip(), facts, sections)

    def text(self, name: str) -> str:
        """A section without parts, such as Said, on one line."""
        return " ".join(self.sections.get(name, {}).get("", "").split())

    def render(self, finding: str, part: str, values: Mapping[str, Any]) -> str:
        """One part of a finding's words with its numbers; empty where the file has none.

        Raises DataError where the words ask for what the analysis does not give.
        """
        parts = self.sections.get(finding, self.sections.get(finding.partition(".")[0], {}))
        source = parts.get(part, "")
        try:
            return fill_words(source, values)
        except (jinja2.TemplateError, TypeError, KeyError, AttributeError) as error:
            where = f"{self.path.name}, ## {finding}, ### {part}"
            raise DataError(
                "the words do not fit the result", where=where, got=str(error)
            ) from error

    def line(self, finding: str, part: str, values: Mapping[str, Any]) -> str:
        """A part as one paragraph."""
        return " ".join(self.render(finding, part, values).split())

    def items(self, finding: str, part: str, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The items of a part that is a list, those that are not empty."""
        return _split_items(self.render(finding, part, values))

    def read_verdicts(self, name: str) -> dict[str, str]:
        """Sentences by verdict, from lines such as `supported: …` of a section, such as Answer."""
        return dict(
            re.findall(r"^([a-z ]+): *(.+)$", self.sections.get(name, {}).get("", ""), flags=re.M)
        )

    @property
    def history(self) -> tuple[str, ...]:
        """The changes of the rules, from the section History."""
        return _split_items(self.sections.get("History", {}).get("", ""))


def _split_items(text: str) -> tuple[str, ...]:
    items = re.split(r"^- *", text, flags=re.M)
    return tuple(" ".join(item.split()) for item in items if item.strip())


def _split_parts(body: str) -> dict[str, str]:
    head, *parts = re.split(r"^### +(.+)\n", body, flags=re.M)
    names = ["", *map(str.strip, parts[::2])]
    texts = map(str.strip, [head, *parts[1::2]])
    return dict(zip(names, texts, strict=True))


def fill_words(words: str, values: Mapping[str, Any]) -> str:
    """Words with their numbers; raises jinja2.TemplateError for a value that is not there."""
    return _build_environment().from_string(words).render(values).strip()


def _build_environment() -> jinja2.Environment:
    # Markdown for people, escaped where it becomes HTML
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        autoescape=False,  # noqa: S701
    )
    environment.filters |= FILTERS
    environment.globals |= {
        "effects": read_effects,
        "allowed": ALLOWED,
        "raw_and_read": list_raw_and_read,
    }
    return environment
