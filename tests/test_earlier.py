"""Names of earlier versions still work, and say the name of today."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from thermostats import earlier
from thermostats.claims.claim import Claim
from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Inference, Result
from thermostats.claims.rule import Posterior
from thermostats.modelling.specification.null import Null, across_labs

WORDS = {"id": "U01", "title": "", "estimand": "", "rule": "", "source": ""}


@dataclass(frozen=True)
class Inner:
    size: int = 1
    name: str = ""


@earlier.fields(old="new", old_size="inner.size")
@dataclass(frozen=True)
class Record:
    new: str
    inner: Inner = Inner()


def test_a_field_is_given_and_read_by_its_earlier_name() -> None:
    made: Any = Record
    with pytest.warns(DeprecationWarning, match=r"Record\(old=\) is new now") as given:
        record = made(old="a")
    with pytest.warns(DeprecationWarning, match=r"Record\.old is new now") as read:
        assert record.old == "a"
    assert given[0].filename == read[0].filename == __file__, "shown by default where it is the user's own line"
    with pytest.warns(DeprecationWarning, match=r"Record\(old_size=\) is inner\.size now"):
        assert made("b", old_size=3, inner=Inner(name="x")) == Record("b", Inner(3, "x"))
    with pytest.warns(DeprecationWarning, match=r"Record\.old_size is inner\.size now"):
        assert made("b").old_size == 1
    with pytest.warns(DeprecationWarning, match="inner.size"):
        assert replace(made("b"), old_size=2) == Record("b", Inner(2))


def test_claims_and_nulls_have_their_earlier_names() -> None:
    old_claim: Any = Claim
    with pytest.warns(DeprecationWarning, match=r"Claim\(said=\) is statement now"):
        claim = old_claim(**WORDS, said="deep models")
    with pytest.warns(DeprecationWarning, match=r"Claim\.said is statement now"):
        assert claim.said == claim.statement == "deep models"
    old_null: Any = Null
    with pytest.warns(DeprecationWarning, match=r"Null\(given=\) is columns now"):
        assert old_null("w", given=("x",)) == Null("w", columns=("x",))
    asked: Any = across_labs("x")
    with pytest.warns(DeprecationWarning, match=r"Null\.given is columns now"):
        assert asked.given == ("x",)


def test_a_result_takes_what_belongs_to_a_fit_as_before() -> None:
    old: Any = Result
    truth = {"it": np.arange(4) < 3}
    with pytest.warns(DeprecationWarning, match=r"Result\(statements=\) is inference\.statements now"):
        result = old(n_models=3, statements=truth)
    with pytest.warns(DeprecationWarning, match=r"Result\(fit_tables=\) is inference\.tables now"):
        result = replace(result, fit_tables=("rows",))
    assert result == Result(n_models=3, inference=Inference(statements=truth, tables=("rows",)))
    with pytest.warns(DeprecationWarning, match=r"Result\(model=\) is inference\.model now"):
        more = replace(result, model="A line.")
    assert more.inference == Inference(statements=truth, tables=("rows",), model="A line.")
    with pytest.warns(DeprecationWarning, match=r"Result\.probability is inference\.probability now"):
        assert more.probability("it") == 0.75
    with pytest.warns(DeprecationWarning, match=r"Result\.fit is inference\.fit now"):
        assert more.fit is None


def test_the_earlier_question_to_a_posterior_and_argument_of_judge() -> None:
    rule: Any = Posterior("it")
    truth = {"it": np.ones(4, dtype=bool)}
    with pytest.warns(DeprecationWarning, match=r"Posterior\.asked is statements_of now"):
        assert rule.asked(Result(inference=Inference(statements=truth))) == truth
    claim: Any = Claim(**WORDS, statement="")
    with (
        pytest.warns(DeprecationWarning, match=r"Claim\.judge\(kept=\) is keep now"),
        pytest.raises(Exception, match="without questions"),
    ):
        claim.judge(Evidence(), kept=lambda *_: None)


@pytest.mark.parametrize("name", earlier.MODULES)
def test_a_module_is_imported_by_its_earlier_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.warns(DeprecationWarning, match=rf"{name} is {earlier.MODULES[name]} now"):
        module = import_module(name)
    assert module is import_module(earlier.MODULES[name])
