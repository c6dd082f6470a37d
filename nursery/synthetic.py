"""A synthetic language whose later words depend on words far before them, so that a model can learn
from its context.

A document has, in this order:

- a key of three nouns, `@ n n n .`;
- for each of two to four names an introduction, `name be CLASS noun .`, which binds the name to one
  of three classes (`ma`, `ko`, `se`) and to a noun, both for this document alone;
- eight to twenty-seven sentences. A clause is `name verb noun`, where the verb ends in the vowel of
  its name's class (agreement with the introduction) and the noun is one the verb prefers (a
  dependency on the word before); between name and verb there may be a further clause in round or
  square brackets, nested to depth three, each closed by its kind. One sentence in five is instead a
  recall, `name ti noun .`, with the noun that the name was bound to;
- the key again, `@ n n n .`.

Nouns and verbs follow Zipf's law (the r-th is drawn in proportion to 1/r); keys, names and bound
nouns are drawn evenly, so that frequency does not give them away. The start of the document gives
class, bound noun and key.

A document is determined by its number alone: its random numbers are
`random.Random(f"{SEED}/{number}").random()`, which Python keeps the same between versions, and no
other random function is used.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

SEED = 20260
DOCUMENTS = 10_000
CLASSES = {"ma": "a", "ko": "o", "se": "e"}
BRACKETS = {"(": ")", "[": "]"}
NESTED, RECALLED, DEPTH = 0.3, 0.2, 3
"""Chance of a bracket in a clause, of a recall instead of a sentence, and the deepest nesting of
brackets."""

T = TypeVar("T")


@dataclass(frozen=True)
class Name:
    """A name as its document binds it: the particle of its class and a noun."""

    word: str
    particle: str
    noun: str


def documents(count: int = DOCUMENTS) -> list[str]:
    """The first `count` documents, each one line of words with single spaces and a line break at
    its end."""
    return [document(number) for number in range(count)]


def document(number: int) -> str:
    """Document `number`, 0 or more; it does not depend on any other."""
    draw = random.Random(f"{SEED}/{number}")  # noqa: S311
    key = [_even(draw, NOUNS) for _ in range(3)]
    words = ["@", *key, "."]
    names: list[Name] = []
    for word in _distinct(draw, NAMES, 2 + int(3 * draw.random())):
        names.append(Name(word, _even(draw, tuple(CLASSES)), _even(draw, NOUNS)))
        words += [word, "be", names[-1].particle, names[-1].noun, "."]
    for _ in range(8 + int(20 * draw.random())):
        if draw.random() < RECALLED:
            name = _even(draw, names)
            words += [name.word, "ti", name.noun, "."]
        else:
            words += [*_clause(draw, names, 0), "."]
    return " ".join([*words, "@", *key, "."]) + "\n"


def _clause(draw: random.Random, names: Sequence[Name], depth: int) -> list[str]:
    name = _even(draw, names)
    inside: list[str] = []
    if depth < DEPTH and draw.random() < NESTED:
        opening = _even(draw, tuple(BRACKETS))
        inside = [opening, *_clause(draw, names, depth + 1), BRACKETS[opening]]
    verb = _zipf(draw, len(VERBS))
    noun = _zipf(draw, len(NOUNS))
    preferred = NOUNS[(noun + PREFERENCE * verb) % len(NOUNS)]
    return [name.word, *inside, VERBS[verb] + CLASSES[name.particle], preferred]


def _even(draw: random.Random, items: Sequence[T]) -> T:
    return items[int(len(items) * draw.random())]


def _distinct(draw: random.Random, items: Sequence[str], count: int) -> list[str]:
    """`count` different items in random order."""
    left = list(items)
    return [left.pop(int(len(left) * draw.random())) for _ in range(count)]


def _zipf(draw: random.Random, size: int) -> int:
    """A rank from 0 in proportion to 1/(rank + 1)."""
    sums = _SUMS[size]
    return bisect.bisect_right(sums, draw.random() * sums[-1])


def _syllables(consonants: str, vowels: str) -> list[str]:
    return [consonant + vowel for consonant, vowel in itertools.product(consonants, vowels)]


NAMES = tuple(first + "n" for first in _syllables("BDFGKLMPRTV", "aiu"))
"""33 names, capital first: `Ban`, `Bin`, …."""
VERBS = tuple(a + b for a, b in itertools.product(_syllables("dgnrz", "aiu"), "klst"))
"""60 verb stems, to which the vowel of a class is added: `dak`, `dal`, …."""
NOUNS = tuple(
    a + b for a, b in itertools.product(_syllables("bfhlmpstvw", "aeiou"), ("lu", "ri", "no", "x"))
)
"""200 nouns: `balu`, `bari`, …."""
PREFERENCE = 37
"""Verb v prefers its nouns in the order of rank moved on by 37 v: no common divisor with the number
of nouns."""
_SUMS = {
    size: list(itertools.accumulate(1 / (rank + 1) for rank in range(size)))
    for size in (len(NOUNS), len(VERBS))
}
