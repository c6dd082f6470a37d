"""Verbs around the work: doctor, cite, new claim, export from the shell."""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import command, layer, model, run, table

import thermostats
from thermostats.cli import tools
from thermostats.cli.tools import create_claim, create_heritage, print_dampening
from thermostats.errors import UsageError
from thermostats.modelling.model_gains import gain_rows
from thermostats.reporting import snapshot as citing
from thermostats.reporting import state as posteriors
from thermostats.reporting.report import report
from thermostats.studies.delia2026.published_gains import HUNT, PYTHIA
from thermostats.tables import register, store
from thermostats.tables.folders import prepare_folder
from thermostats.tables.join import join


def test_doctor_tells_of_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in {"nutpie", "torch"}:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(posteriors, "version", version)
    found = {check["name"]: check for check in tools.run_checks()}
    assert (found["libraries"]["state"], found["libraries"]["advice"]) == (
        tools.BROKEN,
        "pip install nutpie",
    )
    assert found["extra measure"]["state"] == tools.MISSING
    assert "pip install" in (advice := found["extra measure"]["advice"]) and "[measure]" in advice
    assert (
        f"{len(store.load('models', store.find_shipped('data')))} models"
        in found["tables"]["found"]
    )


def test_doctor_says_with_what_classes_and_fits_were_proven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proven = register.list_versions()
    assert set(proven) == {"transformers", "pymc", "arviz", "pandas"}
    newest = {name: numbers[-1] for name, numbers in proven.items()}
    monkeypatch.setattr(tools, "versions", lambda *names: {n: newest[n] for n in names})
    name, state, found, advice = tools.make_versions_row()
    assert (name, state, advice) == ("proven with", tools.OK, "")
    assert all(f"{library} {', '.join(numbers)}" in found for library, numbers in proven.items())
    for library in proven:
        here = {**newest, library: "999.1"}
        monkeypatch.setattr(
            tools, "versions", lambda *names, here=here: {n: here[n] for n in names}
        )
        row = tools.make_versions_row()
        assert row[1] == tools.UNPROVEN
        assert row[3] == f"newer here, where nothing was tried: {library} 999.1"
    assert register.find_newer({"pandas": "3.0.9", "pymc": "5.28.5rc1"}) == []
    assert register.find_newer({"pandas": "3.10.0"}) == ["pandas 3.10.0"]


def test_doctor_tells_of_a_damaged_store_and_of_one_to_come(
    small_store: Path, tmp_path: Path
) -> None:
    state = {check["name"]: check["state"] for check in tools.run_checks(small_store)}
    assert (
        state["tables"]
        == {check["name"]: check["state"] for check in tools.run_checks(tmp_path / "mine")}[
            "tables"
        ]
    )
    assert state["tables"] == tools.OK and not (tmp_path / "mine").exists()
    (small_store / "models.csv").write_text("nothing")
    done = command("doctor", "--data", small_store, "--json")
    told = {check["name"]: check for check in json.loads(done.stdout)}
    assert done.returncode == 1
    assert told["tables"]["state"] == tools.BROKEN and "models.csv" in told["tables"]["found"]


def test_citations_are_of_the_sources_in_use(small_store: Path) -> None:
    shipped = thermostats.citations()
    assert re.findall(r"^@\w+\{(\w+),", shipped, re.MULTILINE)[:2] == [
        "thermostats",
        "delia2026thermodynamic",
    ]
    assert "10.5281/zenodo.18165365" in shipped
    assert f"version {importlib.metadata.version('pymc')}" in shipped
    built_on = (
        "elhage2021mathematical",
        "hansen2019toward",
        "bodnar2022neural",
        "gardner2024transformers",
    )
    assert [key for key in built_on if f"{{{key}," not in shipped] == []
    keys = [citation.key for citation in citing.list_citations(small_store)]
    assert "delia2026thermodynamic" not in keys and set(keys).isdisjoint(built_on)
    assert "transformers" not in keys
    assert keys[-1] == "source1"
    join(table("runs", run(source="thermostats", prompt_set="", prompt_sha="")), data=small_store)
    assert "transformers" in [citation.key for citation in citing.list_citations(small_store)]
    assert thermostats.citations(small_store).count("{") == thermostats.citations(
        small_store
    ).count("}")


@pytest.mark.slow
def test_the_template_of_a_claim_gives_a_page(tmp_path: Path) -> None:
    path = create_claim("Depth helps!", tmp_path / "mine")
    assert path.name == "u01_depth_helps.py"
    result = report(
        analyses=tmp_path / "mine", claims=["u01"], out=tmp_path / "report", processes=1
    )
    assert result.ok, result
    page = (tmp_path / "report" / "u01" / "index.html").read_text()
    assert "Depth helps" in page
    finding = json.loads((tmp_path / "report" / "u01" / "findings.json").read_text())
    assert store.load("models")["model_id"].nunique() >= json.dumps(finding).count("n_models") > 0
    alone = command(path)
    assert alone.stdout.startswith("U01  Depth helps")


@pytest.mark.slow
def test_the_template_of_a_claim_counts_own_rows(tmp_path: Path) -> None:
    path = create_claim("mine", tmp_path)
    numbers = []
    for data in (store.find_shipped("data"), _with_an_own_model(tmp_path / "own")):
        done = command(path, THERMOSTATS_DATA=data)
        found = re.search(r" pooled +(\d+) / (\d+)$", done.stdout, re.M)
        assert found is not None, done.stdout
        numbers.append(tuple(map(int, found.groups())))
    assert numbers[1] == (numbers[0][0] + 1, numbers[0][1] + 1)


def _with_an_own_model(folder: Path) -> Path:
    """A store with one model of one's own, of a lab of its own, that has three layers."""
    measured = run(model_id="own/model", source="own hooks", prompt_set="", prompt_sha="")
    prepare_folder(folder)
    models = table("models", model("own/model", heritage="Own lab", n_layers=3))
    layers = table("layers", *(layer(measured, number, 1.1, prompt_id="") for number in (1, 2, 3)))
    join([models, table("runs", measured), layers], data=folder)
    return folder


@pytest.mark.slow
@pytest.mark.long
def test_the_template_of_heritage_asks_all_that_ship_and_one_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THERMOSTATS_CACHE", "off")
    own = _with_own_prompts(tmp_path / "own")
    path = create_heritage(folder=tmp_path / "mine")
    assert path.name == "u01_heritage_with_my_models.py"
    result = report(
        ["U01"], data=own, analyses=tmp_path / "mine", out=tmp_path / "report", processes=1
    )
    assert result.ok, result
    at_all, beyond, finding = json.loads(
        (tmp_path / "report" / "u01" / "findings.json").read_text()
    )["findings"]
    assert (
        "Does the lab matter at all?" in at_all["plain"]
        and "beyond shape and size?" in beyond["plain"]
    )
    shipped, study = (
        gain_rows("penultimate_gain"),
        gain_rows("penultimate_gain", source=[HUNT, PYTHIA]),
    )
    shipped = shipped[(shipped["heritage"] != "") & (shipped["model_id"] != "karpathy/stories260K")]
    assert finding["n_models"] == shipped["model_id"].nunique() + 2
    assert {one["n_heritages"] for one in (at_all, beyond, finding)} == {
        shipped["heritage"].nunique() + 1
    }
    notes = " ".join(finding["notes"])
    others = shipped["model_id"].nunique() - study["model_id"].nunique()
    assert f"From the study's files: 22 models; others that ship: {others}; yours: 2." in notes
    assert "Yours: own/one, own/two." in notes
    assert "names no lab: own/three." in notes
    assert "StabilityAI, TII" in next(
        note for note in finding["notes"] if note.startswith("Labs with only one model")
    )
    page = (tmp_path / "report" / "u01" / "index.html").read_text()
    for panel in ("variance-shares", "orders", "labs", "posterior", "prior-to-posterior"):
        assert (tmp_path / "report" / "u01" / f"posterior-order-{panel}.svg").is_file()
    assert "Own lab" in page and "karpathy/stories260K" not in page
    assert report(
        ["U01"], data=own, analyses=tmp_path / "mine", out=tmp_path / "report", check=True
    ).ok
    again = {"layer": 2, "prompt_id": "a", "gain_block": 1.3, "position": "last", "source": "again"}
    join(
        pd.DataFrame([{**again, "model_id": "own/three", "prompt_set": "own"}]),
        table="layers",
        data=own,
    )
    assert not report(
        ["U01"], data=own, analyses=tmp_path / "mine", out=tmp_path / "report", check=True
    ).ok


@pytest.mark.slow
def test_the_template_of_heritage_says_how_many_models_are_too_few(
    small_store: Path, tmp_path: Path
) -> None:
    path = create_heritage("My own", tmp_path)
    done = command(path, "--details", THERMOSTATS_DATA=small_store)
    assert "NEEDS MEASUREMENT" in done.stdout
    assert (
        "the tables hold 1 comparable base model of 1 lab. At least two labs and 14 models"
        in " ".join(done.stdout.split())
    )
    path.write_text(path.read_text().replace('GAIN = "penultimate_gain"', 'GAIN = "normed_gain"'))
    done = command(path, THERMOSTATS_DATA=small_store)
    assert done.returncode == 2
    assert done.stderr.startswith("thermostats: no row holds the gain asked for (normed_gain)")


def _with_own_prompts(folder: Path) -> Path:
    """A store with two models of a lab of their own and one of no lab, on two prompts; one does not
    say it is base."""
    prompts = pd.DataFrame({"prompt_set": "own", "prompt_id": ["a", "b"], "text": ["Hello", "Bye"]})
    join(prompts, table="prompts", data=folder)
    models = [
        model("own/one", "Own lab", 3),
        {**model("own/two", "Own lab", 4), "variant": ""},
        model("own/three", ""),
    ]
    join(table("models", *models), table="models", data=folder)
    whole = {"source": "own hooks", "prompt_set": "own", "position": "last"}
    rows = [
        {**whole, "model_id": row["model_id"], "prompt_id": prompt, "layer": number}
        | {"gain_block": 1 + 0.1 * number + 0.02 * (prompt == "a")}
        for row in models
        for number in range(1, row["n_layers"] + 1)
        for prompt in "ab"
    ]
    join(pd.DataFrame(rows), table="layers", data=folder)
    return folder


def test_claims_of_one_folder_have_ids_of_their_own(tmp_path: Path) -> None:
    assert create_claim("one", tmp_path).name == "u01_one.py"
    assert create_claim("two", tmp_path).name == "u02_two.py"
    with pytest.raises(UsageError, match="analysis of that name"):
        create_claim("ONE", tmp_path)
    (tmp_path / "u01_one.py").unlink()
    with pytest.raises(UsageError, match="analysis of that name"):
        create_claim("one", tmp_path)
    for number in range(3, 100):
        (tmp_path / f"u{number:02d}_more.py").touch()
    with pytest.raises(UsageError, match="no id is free"):
        create_claim("three", tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "title"),
    [
        ("Größe hilft", "u01_grosse_hilft.py", "Größe hilft"),
        ("Gro\u0308ße hilft", "u01_grosse_hilft.py", "Größe hilft"),
        ("l'échelle, ça décide?", "u01_l_echelle_ca_decide.py", "L échelle ça décide"),
        ("Łódź œuvre ﬁne Ⅷ", "u01_lodz_oeuvre_fine_viii.py", "Łódź œuvre ﬁne Ⅷ"),
        ("ČESKÉ İzmir", "u01_ceske_izmir.py", "ČESKÉ İzmir"),
        ("depth глубина", "u01_depth.py", "Depth глубина"),
        ("GPT-2 grows!", "u01_gpt_2_grows.py", "GPT 2 grows"),
    ],
)
def test_letters_of_a_name_lose_their_accents_and_no_letter_is_lost(
    tmp_path: Path, name: str, file: str, title: str
) -> None:
    path = create_claim(name, tmp_path)
    assert path.name == file
    assert path.with_suffix(".md").read_text(encoding="utf-8").startswith(f"# U01 {title}\n")
    compile(path.read_text(encoding="utf-8"), path, "exec")
    with pytest.raises(UsageError, match="analysis of that name"):
        create_claim(name, tmp_path)


def test_a_name_without_latin_letters_is_refused(tmp_path: Path) -> None:
    for name in ("!?", "глубина", "深さ", "\u0308", "–"):
        with pytest.raises(
            UsageError, match=r"no letters.*words in Latin letters, such as depth-helps"
        ):
            create_claim(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_package_lists_its_functions_and_no_other_name() -> None:
    assert dir(thermostats) == sorted(thermostats.__all__)
    with pytest.raises(AttributeError, match="no attribute 'loaded'; it has check, citations"):
        thermostats.loaded  # noqa: B018


@pytest.mark.slow
def test_new_heritage_answers_at_once_on_the_models_at_hand(tmp_path: Path) -> None:
    """On 15 models of one's own only these; without any, all that ship: tests, rates, and who is
    left out."""
    rng, labs = np.random.default_rng(1), np.repeat(list("ABCDE"), 3)
    facts = {
        "model_id": [f"own-{i}" for i in range(15)],
        "heritage": labs,
        "n_layers": np.tile([8, 16, 32], 5),
    }
    gain = np.exp(np.repeat(rng.normal(0, 0.2, 5), 3) + rng.normal(0, 0.02, 15))
    rows = pd.DataFrame(
        {**facts, "n_heads": 8, "d_model": 512, "n_params": 10**8, "penultimate_gain": gain}
    )
    columns = {name: name for name in rows}
    join(rows, mapping={"columns": columns, "constants": {"source": "mine"}}, data=tmp_path / "own")
    found = json.loads(
        command("new", "heritage", "--json", "--data", tmp_path / "own", cwd=tmp_path).stdout
    )
    answer = found["first_answer"]
    assert (answer["whose"], len(answer["models"]), answer["labs"]) == ("your", 15, 5)
    assert [each["p"] < 1e-3 for each in answer["questions"]] == [True, True]
    assert all(
        each["false"] <= 0.05 + 4 * (0.05 * 0.95 / 200) ** 0.5 for each in answer["questions"]
    )
    last = rows.rename(columns={"penultimate_gain": "last_gain"})
    how = {"columns": {name: name for name in last}, "constants": {"source": "mine"}}
    join(last, mapping=how, data=tmp_path / "last")
    made = json.loads(
        command(
            "new", "heritage", "last", "--json", "--data", tmp_path / "last", cwd=tmp_path
        ).stdout
    )
    assert (made["first_answer"]["gain"], len(made["first_answer"]["models"])) == ("last_gain", 15)
    assert 'GAIN = "last_gain"' in (tmp_path / made["path"]).read_text()
    said = command("new", "heritage", "again", cwd=tmp_path).stdout
    assert "Does the lab matter at all?" in said and "facebook/opt-350m" in said


def test_models_whose_last_block_dampens_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    gains = [("a", 0.97312), ("b", 1.0), ("c", None)]
    print_dampening([{"model": model, "last_gain": gain} for model, gain in gains])
    words = "below 1 in the last block, by the mean over prompts"
    assert capsys.readouterr().err == f"{words}: 1 of 2 models: a (0.973)\n"
    print_dampening([{"model": "b", "last_gain": 1.2}])
    assert capsys.readouterr().err == f"{words}: 0 of 1 model\n"
    print_dampening([{"model": "c", "last_gain": None}])
    assert capsys.readouterr().err == ""
