"""A claim from its two files: words with numbers put in, verdicts with their reasons, errors that
name the place."""

import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import shipped_tables

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Above, AtLeast
from thermostats.errors import DataError

WORDS = """
    # U01 Gains grow

    Source: nobody
    Rows: yours

    ## Said
    Gains
    grow.

    ## Estimand
    the gain

    ## Identification
    Not causal, if at all.

    ## one
    ### estimand
    gain of {{ over.id }}
    ### plain
    {{ verdict.sentence }}: {{ estimate | estimate_range }} of {{ n_models | plural("model") }}.
    ### caption
    Never shown.
    ### notes
    - {% if n_models > 2 %}Many.{% endif %}

    - Always,
      on two lines.

    ## all
    ### estimand
    both
    ### plain
    {{ verdict.sentence }}.
"""


@pytest.fixture
def claim(tmp_path: Path) -> Claim:
    (tmp_path / "u01_growth.md").write_text(textwrap.dedent(WORDS).lstrip(), encoding="utf-8")
    found = Claim.read(tmp_path / "u01_growth.py")
    over = [
        SimpleNamespace(id="low", at=0.5),
        SimpleNamespace(id="high", at=2.0),
        SimpleNamespace(id="few", at=2.0),
    ]

    @found.finding(
        "one", primary=Above("gain", 1), over=over, evidence=None, needs=AtLeast(models=2)
    )
    def one(evidence: Evidence, item: SimpleNamespace) -> Result:
        gain = Estimate(item.at, item.at - 0.1, item.at + 0.1, "95%")
        return Result(quantities={"gain": gain}, n_models=1 if item.id == "few" else 3)

    @found.overall(all_of=["one.low", "one.high"], name="all")
    def both(evidence: Evidence, parts: dict) -> Result:
        return Result(words={"parts": parts})

    return found


def test_findings_have_ids_verdicts_and_words(claim: Claim) -> None:
    whole, low, high, few = claim.judge(shipped_tables())
    assert [one.id for one in (whole, low, high, few)] == [
        "U01.all",
        "U01.one.low",
        "U01.one.high",
        "U01.one.few",
    ]
    assert [one.verdict for one in (whole, low, high, few)] == [
        "not supported",
        "not supported",
        "supported",
        "needs measurement",
    ]
    assert (
        high.plain == "The data support this: 2.00 [1.90, 2.10] of 3 models."
        and high.estimand == "gain of high"
    )
    assert high.notes == ("Many.", "Always, on two lines.") and few.notes == (
        "Always, on two lines.",
    )
    assert (
        high.figure.caption == ""
        and whole.headline.value is None
        and high.headline.interval == "95%"
    )


def test_a_claim_states_its_rules_once(claim: Claim) -> None:
    stated = claim.stated()
    assert (
        stated.statement == "Gains grow."
        and stated.title == "Gains grow"
        and stated.basis.source == "nobody"
    )
    assert (
        stated.identification == "Not causal, if at all."
        and stated.words is None
        and stated.questions == []
    )
    assert stated.rule.count("supported where the interval of gain lies above 1") == 1
    assert "U01.one.low, U01.one.high" in stated.rule and "needs at least 2 models" in stated.rule


def test_a_shared_function_is_computed_once(claim: Claim) -> None:
    calls = []

    @claim.shared
    def slow(evidence: Evidence, name: str) -> int:
        calls.append(name)
        return len(calls)

    evidence = shipped_tables()
    assert [
        slow(evidence, "a"),
        slow(evidence.named("published"), "a"),
        slow(evidence, "a"),
        slow(evidence, "b"),
    ] == [1, 2, 1, 3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "begin with its title"),
        ("# U01 Gains\n", "lack a section"),
        ("# U01 Gains\n## Said\nx\n## Estimand\ny\n", "allowed: ## Identification"),
        (
            "# U01 Gains\n## Said\nx\n## Estimand\ny\n## Identification\nz\n## one\n### plain\n{{ "
            "odd }}\n",
            "## one.low, ### estimand|odd",
        ),
    ],
)
def test_words_that_do_not_fit_are_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "u01_a.md").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        claim = Claim.read(tmp_path / "u01_a.py")
        claim.finding("one", primary=Above("x", 1))(
            lambda evidence: Result(quantities={"x": Estimate(1, 0, 2)})
        )
        claim.judge(shipped_tables())


def test_a_missing_file_and_an_unknown_set_are_named(tmp_path: Path, claim: Claim) -> None:
    with pytest.raises(DataError, match="is missing"):
        Claim.read(tmp_path / "u02_b.py")
    with pytest.raises(DataError, match="no such set of evidence"):
        claim.finding("two", primary=Above("x", 1), evidence="hearsay")
