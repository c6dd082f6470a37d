"""The hub's refusals, asked of a server on this machine that answers as the hub does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import study_hub
import tiny
from conftest import command

import thermostats
from thermostats.errors import ThermostatsError, UsageError
from thermostats.measurement import compare, empty_models, execute, hub, plan
from thermostats.measurement.hub import find_local_folder
from thermostats.tables import folders

TOKEN = "hf_aSecretThatMustNotBeShown"  # noqa: S105
COMMIT = "0" * 40
FAULTS = {
    "none/model": study_hub.MISSING,
    "gated/model": study_hub.GATED,
    "forbidden/model": study_hub.FORBIDDEN,
    "expired/model": study_hub.EXPIRED,
    "busy/model": study_hub.BUSY,
    "broken/model": study_hub.BROKEN,
    "hangs/model": study_hub.HANGS,
    "drops/model": study_hub.DROPS,
    "halfway/model": study_hub.HALFWAY,
}
EXPECTED = {
    "none/model": "the hub has no such model, or it is private",
    "gated/model": "the model is gated.*accept the conditions on "
    "https://huggingface.co/gated/model.*hf auth login",
    "forbidden/model": "refuses access.*403",
    "expired/model": "refuses access.*401.*hf auth login",
    "busy/model": "asks to wait.*429.*wait 40 seconds.*hf auth login.*HF_TOKEN",
    "broken/model": "hub cannot be reached.*500",
    "hangs/model": "hub cannot be reached.*[Tt]ime",
    "drops/model": "hub cannot be reached.*disconnected",
    "halfway/model": "hub cannot be reached",
    "good/model:nowhere": "no such revision",
}
ASK = """
import json, sys
from thermostats.errors import ThermostatsError
from thermostats.measurement.hub import fetch_model_folder
answers = {}
for name in sys.argv[1:]:
    model, _, revision = name.partition(":")
    try:
        found = fetch_model_folder(model, revision=revision or "main")
        answers[name] = [found.commit, sorted(path.name for path in found.path.iterdir())]
    except ThermostatsError as error:
        answers[name] = str(error)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("hub")
    tiny.build("llama").save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    (folder / "README.md").write_text("not needed")
    folders = dict.fromkeys([*FAULTS, "good/model"], folder)
    with study_hub.serving(folders, FAULTS, {"good/model": COMMIT}) as (url, _):
        yield url


def run(
    arguments: list[str], endpoint: str, cache: Path, *, seconds: float = 120, **more: str
) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as the endpoint is read when huggingface_hub is imported."""
    settings = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(cache),
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_ETAG_TIMEOUT": "1",
        "HF_HUB_DOWNLOAD_TIMEOUT": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    variables = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**variables, **settings, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


@pytest.mark.slow
def test_every_refusal_says_what_it_is_and_no_token(address: str, tmp_path: Path) -> None:
    ran = run(["-c", ASK, *EXPECTED, "good/model"], address, tmp_path)
    assert ran.returncode == 0, ran.stderr
    answers = json.loads(ran.stdout)
    assert answers.pop("good/model") == [COMMIT, ["config.json", "model.safetensors"]]
    for name, message in EXPECTED.items():
        assert re.search(message, str(answers[name])), (name, answers[name])
        assert name.partition(":")[0] in answers[name]
    assert TOKEN not in ran.stdout + ran.stderr


def test_a_server_that_breaks_off_and_never_resumes_is_given_up(
    address: str, tmp_path: Path
) -> None:
    """Chunks of a few bytes: data comes in each attempt, as with a large file."""
    small = (
        "import time; from huggingface_hub import constants; constants.DOWNLOAD_CHUNK_SIZE = 64\n"
    )
    ran = run(
        ["-c", f"{small}time.sleep = lambda _: None\n{ASK}", "halfway/model"], address, tmp_path
    )
    assert "restarted 3 times" in json.loads(ran.stdout)["halfway/model"], ran.stderr
    assert ran.stderr.count("Trying to resume") == 4


def test_a_download_is_told_in_lines_without_a_terminal(address: str, tmp_path: Path) -> None:
    """Chunks of a few kB and no pause between lines, as if each took long."""
    slow = (
        "from huggingface_hub import constants; constants.DOWNLOAD_CHUNK_SIZE = 8000\n"
        "from thermostats.measurement import hub; hub.TOLD_AFTER = 0.0\n"
    )
    ran = run(["-c", f"{slow}{ASK}", "good/model"], address, tmp_path)
    told = [line for line in ran.stderr.splitlines() if line.startswith("good/model: ")]
    assert re.fullmatch(r"good/model: downloading \d\d kB", told[0]), ran.stderr
    came = [
        re.fullmatch(r".*: downloaded ([\d.]+) k?B(?:ytes)? of (9.*) kB", each) for each in told
    ]
    sizes = [float(match[1]) for match in came if match]
    assert len(sizes) >= 5 and sizes == sorted(sizes), told
    again = run(["-c", f"{slow}{ASK}", "good/model"], address, tmp_path)
    assert "good/model: " not in again.stderr  # what is here is not told


def test_lines_of_files_that_come_at_once_never_go_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight threads, and a format that lets another one run before the line is printed."""

    def format_slowly(count: float) -> str:
        time.sleep(0.001)
        return str(count)

    monkeypatch.setattr(hub, "TOLD_AFTER", 0.0)
    monkeypatch.setattr(hub, "format_bytes", format_slowly)
    bar = hub.Bar(total=80, unit="B", disable=True)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(bar.update, [1] * 80))
    lines = [line for line in capsys.readouterr().err.splitlines() if "downloaded" in line]
    assert lines == [f": downloaded {float(each)} of 80" for each in range(1, 81)]


def test_without_network_the_cache_serves_what_it_has(address: str, tmp_path: Path) -> None:
    assert COMMIT in run(["-c", ASK, "good/model"], address, tmp_path).stdout
    nowhere = "http://127.0.0.1:9"
    answers = json.loads(run(["-c", ASK, "good/model", "other/model"], nowhere, tmp_path).stdout)
    assert answers["good/model"][0] == COMMIT
    assert "not in the cache and the hub cannot be reached" in answers["other/model"]
    answers = json.loads(
        run(["-c", ASK, "other/model"], address, tmp_path, HF_HUB_OFFLINE="1").stdout
    )
    assert "not in the cache and the hub cannot be reached" in answers["other/model"]


@pytest.mark.slow
def test_measuring_goes_on_with_the_models_that_are_there(address: str, tmp_path: Path) -> None:
    models = ["none/model", "gated/model", "drops/model", "good/model"]
    data, cache = tmp_path / "data", tmp_path / "cache"
    line = ["-c", "from thermostats.cli.app import main; main()", "measure", *models]
    line += ["--what", "weights", "--data", str(data), "--json"]
    ran = run(line, address, cache)
    assert ran.returncode == 1
    assert TOKEN not in ran.stdout + ran.stderr
    outcomes = {row["model"]: row["status"] for row in json.loads(ran.stdout)}
    assert outcomes == {**dict.fromkeys(models, "failed"), "good/model": "measured"}
    assert [path.suffix for path in (data / "measured").rglob("*") if path.is_file()] == [
        ".csv"
    ] * 3


def test_a_folder_that_holds_an_adapter_alone_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    with pytest.raises(UsageError, match="adapter alone") as refused:
        find_local_folder(str(tmp_path))
    assert "merge_and_unload" in str(refused.value)


VERBS = {
    "measure": ["measure", "{}", "--data", "mine"],
    "steer": ["steer", "{}", "--gain", "penultimate", "--to", "0.95"],
    "do": ["do", "{}", "W_V * 2"],
    "prove": ["prove", "{}"],
    "predict": ["predict", "{}", "--lab", "EleutherAI"],
    "compare": ["compare", "{}", "other/model"],
}
"""Verbs that take a model, with what else they need."""
FUNCTIONS: dict[str, Callable[[str], object]] = {
    "measure": lambda name: thermostats.measure(name, prompts=["a"]),
    "steer": lambda name: thermostats.steer(name, gain="penultimate", to=[0.95]),
    "do": lambda name: thermostats.do(name, "W_V * 2"),
    "prove": thermostats.prove,
    "predict_gain": lambda name: thermostats.predict_gain(name, lab="EleutherAI"),
    "weight_distances": lambda name: thermostats.weight_distances({"a": name, "b": "other/model"}),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """Which model and revision the hub is asked for first; nothing is fetched."""
    found: list[tuple[str, str]] = []

    def fetch(model: str, *, revision: str = "main", **_: object) -> Path:
        found.append((model, revision))
        raise UsageError("the hub was asked")

    for module in (hub, plan, empty_models, execute, compare):
        for name in ("fetch_model_folder", "fetch_config_folder"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, fetch)
    monkeypatch.chdir(tmp_path)
    return found


@pytest.mark.parametrize(("name", "revision"), [("a/b@step5", "step5"), ("a/b", "main")])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_takes_a_model_takes_a_revision_behind_it(
    verb: str, name: str, revision: str, asked: list[tuple[str, str]]
) -> None:
    ran = command(*(word.format(name) for word in VERBS[verb]))
    assert ran.returncode == 2 and "the hub was asked" in ran.stdout + ran.stderr
    assert asked[0] == ("a/b", revision)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_that_takes_a_model_takes_a_revision_behind_it(
    function: str, asked: list[tuple[str, str]]
) -> None:
    with pytest.raises(UsageError, match="the hub was asked"):
        FUNCTIONS[function]("a/b@step5")
    assert asked[0] == ("a/b", "step5")


def test_an_installed_package_names_no_folders_of_a_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (hub, folders):
        monkeypatch.setattr(module, "list_shipped_models", list)
    said = [command("ls", "runs", "--paths"), command("ls", "models", "--paths")]
    said += [command("measure", "./nowhere", "--data", tmp_path / "mine")]
    with pytest.raises(ThermostatsError) as refused:
        hub._check_allowed("a/b", "main", download=False)
    printed = [ran.stderr.partition("Next: ")[2] for ran in said]
    assert all(ran.returncode for ran in said) and all(printed)
    assert not [step for step in [*printed, refused.value.next_step] if "--paths" in step]
