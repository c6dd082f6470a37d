"""The command line as a user meets it: what it prints, where, and how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import command as thermostats
from conftest import layer, model, run, snapshot, table
from typer.main import get_command
from typer.testing import CliRunner

from thermostats import __version__
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.cli.app import app
from thermostats.cli.tools import create_claim
from thermostats.errors import DataError
from thermostats.reporting import report
from thermostats.tables import store
from thermostats.tables.folders import find_shipped, list_shipped_models
from thermostats.tables.join import join


def test_help_has_an_example_and_names_a_type_only_where_a_value_is_to_be_given() -> None:
    def verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        yield path
        for name, below in getattr(command, "commands", {}).items():
            yield from verbs(below, (*path, name))

    groups = {(), ("new",)}
    told = {path: CliRunner().invoke(app, [*path, "--help"]) for path in verbs(get_command(app))}
    assert {("report",), ("new", "claim"), ("new",), ()} <= set(told)
    for path, helped in told.items():
        assert helped.exit_code == 0
        assert "--help" in helped.stdout and "bool" not in helped.stdout.casefold(), path
        examples = " ".join(helped.stdout.partition("Example:")[2].split())
        assert path in groups or f"thermostats {' '.join(path)}" in examples, path
    (line,) = (line for line in told["report",].stdout.splitlines() if "--out " in line)
    assert "path" in line.casefold().split("folder")[0]


def test_check_and_lists_print_data_on_standard_output_alone(small_store: Path) -> None:
    done = thermostats("check", "--data", small_store)
    assert (done.returncode, done.stderr) == (0, "")
    assert "layers\t6" in done.stdout.splitlines()
    models = json.loads(thermostats("ls", "models", "--data", small_store, "--json").stdout)
    assert models[0]["model_id"] == "lab/small"
    assert models[0]["n_layers"] == 3
    columns = json.loads(thermostats("ls", "columns", "--json").stdout)
    gain = next(row for row in columns if (row["table"], row["column"]) == ("layers", "gain_block"))
    assert (gain["unit"], gain["key"]) == ("ratio", "")
    models = [row for row in columns if row["table"] == "models"]
    assert json.loads(thermostats("ls", "columns", "models", "--json").stdout) == models
    of_models = thermostats("ls", "columns", "models").stdout.splitlines()
    assert [line.split("\t")[1] for line in of_models] == [
        "column",
        *(row["column"] for row in models),
    ]
    sets = thermostats("ls", "prompts", "--data", small_store).stdout.splitlines()
    assert sets[1].split("\t") == ["two", "2", "0", "Plain"]
    assert thermostats("--version").stdout.strip() == __version__
    store.save(table("models", model("lab/other")), "models", small_store / "models.csv")
    damaged = thermostats("check", "--data", small_store)
    assert damaged.returncode == 1
    assert "lab/small" in damaged.stderr


def test_check_counts_own_rows_and_names_disagreements_of_own_models_alone(tmp_path: Path) -> None:
    """Gains of a model that others measured, far from theirs; the package has more that disagree,
    which its own check names."""
    model_id, mine = "EleutherAI/pythia-160m", tmp_path / "mine"
    depth = store.load("models").set_index("model_id").loc[model_id, "n_layers"].max()
    rows = pd.DataFrame({"layer": range(1, depth + 1), "gain_block": 3.0})
    facts = {"prompt_id": "a", "position": "last", "model_id": model_id, "source": "far off"}
    join(rows.assign(**facts), table="layers", data=mine)
    done = thermostats("check", "--data", mine)
    lines = done.stdout.splitlines()
    assert lines[0].split("\t") == ["table", "rows", "yours"]
    yours = {line.split("\t")[0]: line.split("\t")[2] for line in lines[1:]}
    assert (yours["runs"], yours["layers"], yours["weights"]) == ("1", str(depth), "0")
    named = [line for line in done.stderr.splitlines() if "disagree" in line]
    assert named and all(f"kept: {model_id}:" in line for line in named)
    assert any("far off" in line for line in named)
    others = thermostats("check").stderr
    assert "Mistral-7B" in others and "Mistral-7B" not in done.stderr


def test_join_twice_from_the_shell(small_store: Path, tmp_path: Path) -> None:
    measured = run(source="elsewhere")
    (tmp_path / "r.csv").write_bytes(store.encode_csv(table("runs", measured), "runs"))
    (tmp_path / "l.csv").write_bytes(
        store.encode_csv(table("layers", layer(measured, 1, 2.0)), "layers")
    )
    first = thermostats("join", tmp_path / "r.csv", tmp_path / "l.csv", "--data", small_store)
    assert first.returncode == 0
    assert first.stdout.splitlines()[1:] == ["runs\t1\t0\t0", "layers\t1\t0\t0"]
    assert "thermostats report" in first.stderr
    before = snapshot(small_store)
    again = thermostats(
        "join", tmp_path / "r.csv", tmp_path / "l.csv", "--data", small_store, "--json"
    )
    assert [row["unchanged"] for row in json.loads(again.stdout)] == [1, 1]
    (tmp_path / "l.csv").write_bytes(
        store.encode_csv(table("layers", layer(measured, 1, 2.5)), "layers")
    )
    refused = thermostats("join", tmp_path / "l.csv", "--data", small_store)
    assert refused.returncode == 1
    assert "2.5" in refused.stderr
    assert snapshot(small_store) == before


def test_a_refused_measurement_begins_no_store(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = thermostats("measure", "gpt2", "--prompts", "cor", "--data", "mine", cwd=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "did you mean core?" in done.stderr
    planned = thermostats(
        "measure", "nobody/nothing", "--offline", "--dry-run", "--data", "mine", cwd=tmp_path
    )
    assert planned.returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_one_wrong_folder_of_several_does_not_stop_the_others(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    [good] = [path for path in list_shipped_models() if path.name == "r07-5"]
    done = thermostats(
        "measure", "./nowhere", good, "--what", "weights", "--data", "mine", "--json", cwd=tmp_path
    )
    told = {row["status"]: row for row in json.loads(done.stdout)}
    assert (set(told), done.returncode) == ({"failed", "measured"}, 2)
    assert "no such model folder" in told["failed"]["reason"]


def test_own_claims_are_listed_and_asked_for_by_name(tmp_path: Path) -> None:
    create_claim("depth helps", tmp_path / "analyses")
    listed = thermostats("ls", "claims", "--analyses", "analyses", cwd=tmp_path)
    assert listed.stdout.splitlines() == [
        "claim\treads\tneeds\ttitle",
        "U01\tstudy, external and measured\t1 model\tDepth helps",
    ]
    done = thermostats("report", "u01", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "thermostats report u01 --analyses analyses --out my-report" in done.stderr
    done = thermostats("report", "u01", "--data", "mine", cwd=tmp_path)
    assert "thermostats report u01 --analyses analyses --data mine --out my-report" in done.stderr


def test_claims_say_whose_rows_and_how_many_they_need() -> None:
    """The words hold what the first finding declares of every set of evidence."""
    listed = {row["claim"]: row for row in json.loads(thermostats("ls", "claims", "--json").stdout)}
    for name, script in list_scripts(find_shipped("analyses")).items():
        assert listed[name]["needs"], name
        views = next(
            (question.views for question in load_claim(script).questions if question.views), None
        )
        if views is not None:
            said = [
                f"{views.models} model",
                *[f"of {views.groups} labs"] * (views.groups > 1),
                *views.including,
            ]
            assert all(words in listed[name]["needs"] for words in said), name


def test_a_stale_report_says_what_builds_it(tmp_path: Path) -> None:
    create_claim("depth helps", tmp_path / "analyses")
    done = thermostats(
        "report", "U01", "--check", "--analyses", "analyses", "--out", "none", cwd=tmp_path
    )
    assert (done.returncode, done.stdout.split()[:2]) == (1, ["U01", "stale"])
    assert done.stderr == "Next: the same command without --check\n"
    assert [path.name for path in tmp_path.iterdir()] == ["analyses"]


@pytest.mark.slow
def test_a_report_with_own_rows_says_where_their_answers_are(tmp_path: Path) -> None:
    create_claim("depth helps", tmp_path / "analyses")
    join(table("models", model("own/one")), data=tmp_path / "mine")
    asked = ["report", "C20", "--check", "--out", "none", "--data", "mine"]
    assert "Your models" not in thermostats(*asked, cwd=tmp_path).stderr
    join(table("runs", run("own/one", prompt_set="", prompt_sha="")), data=tmp_path / "mine")
    first, *_ = thermostats(*asked, cwd=tmp_path).stderr.splitlines()
    assert first == "What your models lack: thermostats needs C20 --data mine"
    (tmp_path / "none").mkdir()
    rows = pd.read_csv(
        Path(__file__).parents[1] / "reports" / "snapshot" / "findings.csv", dtype=str
    )
    rows.assign(evidence="own").to_csv(tmp_path / "none" / "findings.csv", index=False)
    first, second, *_ = thermostats(*asked, cwd=tmp_path).stderr.splitlines()
    assert first == "Your models are asked too: thermostats findings --evidence own --out none"
    assert second == "What your models lack: thermostats needs C20 --data mine"
    (tmp_path / "none").rename(tmp_path / "of both")
    (tmp_path / "mine").rename(tmp_path / "my rows")
    spaced = ["report", "C20", "--check", "--out", "of both", "--data", "my rows"]
    first, second, *_ = thermostats(*spaced, cwd=tmp_path).stderr.splitlines()
    assert first == "Your models are asked too: thermostats findings --evidence own --out 'of both'"
    assert second == "What your models lack: thermostats needs C20 --data 'my rows'"
    (tmp_path / "of both").rename(tmp_path / "none")
    (tmp_path / "my rows").rename(tmp_path / "mine")
    assert "Your models" not in thermostats(*asked, "--json", cwd=tmp_path).stderr
    assert "Your models" not in thermostats(*asked[:-2], cwd=tmp_path).stderr
    own = thermostats("report", "U01", "--analyses", "analyses", *asked[2:], cwd=tmp_path)
    assert (own.returncode, "Your models" in own.stderr) == (1, False)
    listed = thermostats("ls", "runs", "--own", "--data", "mine", cwd=tmp_path).stdout.splitlines()
    assert [line.split("\t")[1] for line in listed] == ["model_id", "own/one"]


def test_interrupting_twice_ends_without_a_traceback(tmp_path: Path) -> None:
    code = (
        "import os, signal; from thermostats.cli.options import handle_interrupt\n"
        "def stop(*_): os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, handle_interrupt)\n"
        "try:\n stop()\nexcept KeyboardInterrupt:\n stop()\nprint('still here')"
    )
    done = thermostats(code=code, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip().startswith("thermostats: interrupted")
    assert "Traceback" not in done.stderr


def test_the_shell_completes_lists_and_claims() -> None:
    def completed(words: str, count: int) -> list[str]:
        variables = {
            "_THERMOSTATS_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(count),
        }
        command = Path(sys.executable).with_name("thermostats")
        done = subprocess.run(
            [command], capture_output=True, text=True, check=True, env={**os.environ, **variables}
        )
        return done.stdout.split()

    assert completed("thermostats ls mo", 2) == ["models"]
    named_so = [claim for claim in list_scripts(find_shipped("analyses")) if claim.startswith("C2")]
    assert (
        completed("thermostats report C2", 2)
        == completed("thermostats findings C2", 2)
        == named_so
        != []
    )
    assert completed("thermostats measure karp", 2) == ["karpathy/stories260K"]
    assert completed("thermostats export out lay", 3) == ["layers"]


def test_models_and_runs_are_listed_by_lab_and_family_the_controlled_study_when_asked() -> None:
    def models(*options: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = json.loads(
            thermostats("ls", "models", *options, "--json").stdout
        )
        return found

    pythia = models("--family", "pythia", "--lab", "eleutherai")
    assert len(pythia) == 8
    assert {(row["heritage"], row["family"]) for row in pythia} == {("EleutherAI", "pythia")}
    usual = models()
    assert "nursery" not in {row["heritage"] for row in usual}
    assert {row["heritage"] for row in models("--lab", "nursery")} == {"nursery"}
    assert len(models("--nursery")) > 5 * len(usual)
    runs = json.loads(thermostats("ls", "runs", "--lab", "TII", "--json").stdout)
    assert {row["model_id"] for row in runs} == {"tiiuae/falcon-7b"}


def test_a_report_is_opened_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    for ok in (True, False):
        monkeypatch.setattr(
            report, "report", lambda *_, ok=ok, **__: report.ReportRun(ok, "out", ())
        )
        for options in (["--open"], []):
            done = CliRunner().invoke(
                app, ["report", "C07", "--out", str(tmp_path / "out"), *options]
            )
            assert done.exit_code == (not ok), done.output
    assert opened == [(tmp_path / "out" / "index.html").as_uri()]


def test_folders_of_shipped_models_are_listed_one_a_line() -> None:
    lines = thermostats("ls", "models", "--paths").stdout.splitlines()
    assert [Path(line).name for line in lines] == ["r03-1", "r07-5", "r15-2"]
    assert all((Path(line) / "config.json").is_file() for line in lines)


def test_an_installed_package_has_no_trained_models_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("thermostats.tables.folders.list_shipped_models", list)
    done = CliRunner().invoke(app, ["ls", "models", "--paths"])
    assert isinstance(
        done.exception, DataError
    ) and "in the repository, not in the installed package" in str(done.exception)
    done = CliRunner().invoke(app, ["ls", "runs", "--paths"])
    assert str(done.exception).endswith("Next: thermostats ls models")
