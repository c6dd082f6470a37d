"""`owner/name@revision` is a model and its revision wherever a model is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import model, table

import thermostats
from thermostats.errors import UsageError
from thermostats.measurement.spec import RunSpec, build_spec, collect_specs
from thermostats.tables import store
from thermostats.tables.choices import split_revision
from thermostats.tables.model_rows import set_facts
from thermostats.tables.reading import read_values


def test_a_revision_stands_behind_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert split_revision("owner/name@step5") == ("owner/name", "step5")
    assert split_revision("owner/name@step5", "step5") == ("owner/name", "step5")
    assert split_revision("owner/name", "step5") == ("owner/name", "step5")
    assert split_revision("owner/name") == ("owner/name", None)
    for whole in ("@name", "name@"):
        assert split_revision(whole) == (whole, None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run@2").mkdir()
    assert split_revision("run@2") == ("run@2", None)
    with pytest.raises(UsageError, match="two revisions of one model"):
        split_revision("owner/name@step5", "step6")


def test_specs_take_it_apart() -> None:
    (spec,) = collect_specs(["owner/name@step5"], {})
    assert (spec.model, spec.revision) == ("owner/name", "step5")
    assert build_spec("owner/name@step5", {}) == RunSpec("owner/name", "step5")
    listed = collect_specs(["owner/name@step5", "owner/name"], {})
    assert [each.revision for each in listed] == ["step5", "main"]
    with pytest.raises(UsageError, match="two revisions"):
        collect_specs(["owner/name@step5"], {"revision": "step6"})


def test_a_configuration_is_read_of_that_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    empty_models = pytest.importorskip("thermostats.measurement.empty_models")
    asked = []

    def fetch(name: str, *, revision: str) -> Path:
        asked.append((name, revision))
        raise UsageError("asked")

    monkeypatch.setattr(empty_models, "fetch_config_folder", fetch)
    for name in ("owner/name@step5", "owner/name"):
        with pytest.raises(UsageError, match="asked"):
            empty_models.read_config_facts(name)
    assert asked == [("owner/name", "step5"), ("owner/name", "main")]


def test_features_are_of_that_revision() -> None:
    every = thermostats.features(lab="nursery", every=True)
    counts = every.groupby("model_id")["revision"].nunique()
    name = str(counts.index[counts > 1][0])
    first, *_ = sorted(set(every.loc[every["model_id"] == name, "revision"]))
    short = name.rpartition("/")[2]
    for asked in (f"{name}@{first}", f"{short}@{first}"):
        assert set(thermostats.features(model=asked, every=True)["revision"]) == {first}
    assert set(thermostats.features(model=[name], every=True)["revision"]) > {first}
    with pytest.raises(UsageError, match="no rows of this revision") as refused:
        thermostats.features(model=f"{name}@{first}7")
    assert len(eval(refused.value.next_step, {"thermostats": thermostats}))  # noqa: S307


def test_facts_are_set_of_that_revision(tmp_path: Path) -> None:
    data = tmp_path / "mine"
    rows = [{**model("own/one"), "revision": revision} for revision in ("a", "b")]
    thermostats.join(table("models", *rows), data=data)
    set_facts("own/one@a", {"lab": "Mine"}, data=data)
    labs = store.load("models", data).query("model_id == 'own/one'").set_index("revision")
    assert labs["heritage"].to_dict() == {"a": "Mine", "b": rows[1]["heritage"]}
    with pytest.raises(UsageError, match=r"no such model among your own rows.*own/one@c"):
        set_facts("own/one@c", {"lab": "Mine"}, data=data)


def test_profiles_take_it() -> None:
    with pytest.raises(UsageError, match="nothing is measured of this model"):
        read_values("EleutherAI/pythia-160m@step77777")
