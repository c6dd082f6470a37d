"""What every claim says of causes: whether its verdict is about one, what identifies it, and what
if that fails."""

import re
from collections import Counter

import pytest

from thermostats.claims.run import load_claims
from thermostats.tables import folders

FIRST = re.compile(r"\b[Cc]aus(al|e)\b|^Mathematics\b")
CONDITION = re.compile(r"\b(if|unless|provided)\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def said() -> dict[str, list[str]]:
    """The sentences of each claim's section."""
    return {
        claim.id: re.split(r"(?<=[.!?]) +(?=\S)", claim.identification)
        for claim in load_claims(folders.find_shipped("analyses"))
    }


def test_every_claim_says_first_whether_it_is_causal_and_then_what_it_rests_on(
    said: dict[str, list[str]],
) -> None:
    assert len(said) >= 30
    assert [claim for claim, sentences in said.items() if not 2 <= len(sentences) <= 3] == []
    assert [claim for claim, sentences in said.items() if not FIRST.search(sentences[0])] == []
    assert [
        claim for claim, sentences in said.items() if not CONDITION.search(" ".join(sentences))
    ] == []
    assert [
        claim
        for claim, sentences in said.items()
        if re.search(r"\d\.\d(?!B)|\d%", " ".join(sentences))
    ] == []


def test_no_sentence_is_that_of_another_claim(said: dict[str, list[str]]) -> None:
    times = Counter(sentence for sentences in said.values() for sentence in sentences)
    assert [sentence for sentence, number in times.items() if number > 1] == []


def test_what_the_design_assigned_is_called_causal_and_nothing_else(
    said: dict[str, list[str]],
) -> None:
    """The controlled study assigned recipe, corpus and shape; nobody assigned a lab to a model."""
    causal = {claim for claim, sentences in said.items() if sentences[0].startswith("Causal")}
    assert {"N01", "N02", "N03"} <= causal
    assert causal.isdisjoint({"C01", "C03", "C04", "C05", "C10", "H01"})
