"""The hub's refusals, asked of a server on this machine that answers as the hub does."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny

TOKEN = "hf_aSecretThatMustNotBeShown"  # noqa: S105 - it opens nothing
COMMIT = "0" * 40
REFUSALS = {
    "none/model": (401, "RepoNotFound"),
    "gated/model": (403, "GatedRepo"),
    "forbidden/model": (403, ""),
    "expired/model": (401, ""),
    "broken/model": (500, ""),
}
"""Model → what the hub answers to everything about it: status and X-Error-Code."""
EXPECTED = {
    "none/model": "the hub has no such model, or it is private",
    "gated/model": "the model is gated.*accept the conditions on https://huggingface.co/gated/model.*hf auth login",
    "forbidden/model": "refuses access.*403",
    "expired/model": "refuses access.*401.*hf auth login",
    "broken/model": "hub cannot be reached.*500",
    "hangs/model": "hub cannot be reached.*[Tt]ime",
    "drops/model": "hub cannot be reached.*disconnected",
    "halfway/model": "hub cannot be reached",
    "good/model:nowhere": "no such revision",
}
ASK = """
import json, sys
from thermostats.errors import ThermostatsError
from thermostats.measurement.hub import model_folder
answers = {}
for name in sys.argv[1:]:
    model, _, revision = name.partition(":")
    try:
        found = model_folder(model, revision=revision or "main")
        answers[name] = [found.commit, sorted(path.name for path in found.path.iterdir())]
    except ThermostatsError as error:
        answers[name] = str(error)
print(json.dumps(answers))
"""


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as downloading a model asks for."""

    folder: Path
    files: tuple[str, ...] = ("config.json", "model.safetensors", "README.md")
    commit = COMMIT

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        api = parts[:2] == ["api", "models"]
        model = "/".join(parts[2:4] if api else parts[:2])
        if model == "hangs/model":
            time.sleep(3)
        if model in ("drops/model", "hangs/model"):
            return
        if model in REFUSALS:
            self.send(*REFUSALS[model])
        elif api and "nowhere" in parts:
            self.send(404, "RevisionNotFound")
        elif api and "tree" in parts:
            sizes = {name: (self.folder / name).stat().st_size for name in self.files}
            tree = [{"type": "file", "path": name, "size": size, "oid": name} for name, size in sizes.items()]
            self.send(200, content=json.dumps(tree).encode(), body=body)
        elif api:
            about = {"id": model, "sha": COMMIT, "siblings": [{"rfilename": name} for name in self.files]}
            self.send(200, content=json.dumps(about).encode(), body=body)
        else:
            content = (self.folder / parts[-1]).read_bytes()
            short = len(content) // 2 if model == "halfway/model" and parts[-1] == "model.safetensors" else None
            self.send(200, content=content, body=body, short=short)

    def send(
        self, status: int, code: str = "", content: bytes = b"{}", *, body: bool = True, short: int | None = None
    ) -> None:
        self.send_response(status)
        digest = hashlib.sha256(content).hexdigest()
        headers = {"X-Repo-Commit": self.commit, "ETag": f'"{digest}"', "Content-Length": str(len(content))}
        for name, value in (headers | ({"X-Error-Code": code} if code else {})).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content[:short])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("hub")
    tiny.build("llama").save_pretrained(folder)
    (folder / "README.md").write_text("not needed")
    Hub.folder = folder
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def run(
    arguments: list[str], endpoint: str, cache: Path, *, seconds: float = 120, **more: str
) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as the endpoint is read when huggingface_hub is imported."""
    own = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(cache),
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_ETAG_TIMEOUT": "1",
        "HF_HUB_DOWNLOAD_TIMEOUT": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**kept, **own, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def test_every_refusal_says_what_it_is_and_no_token(hub: str, tmp_path: Path) -> None:
    ran = run(["-c", ASK, *EXPECTED, "good/model"], hub, tmp_path)
    assert ran.returncode == 0, ran.stderr
    answers = json.loads(ran.stdout)
    assert answers.pop("good/model") == [COMMIT, ["config.json", "model.safetensors"]]
    for name, message in EXPECTED.items():
        assert re.search(message, str(answers[name])), (name, answers[name])
        assert name.partition(":")[0] in answers[name]
    assert TOKEN not in ran.stdout + ran.stderr


def test_a_server_that_breaks_off_and_never_resumes_is_given_up(hub: str, tmp_path: Path) -> None:
    """Chunks of a few bytes: data comes in each attempt, as with a large file."""
    small = "import time; from huggingface_hub import constants; constants.DOWNLOAD_CHUNK_SIZE = 64\n"
    ran = run(["-c", f"{small}time.sleep = lambda _: None\n{ASK}", "halfway/model"], hub, tmp_path)
    assert "restarted 3 times" in json.loads(ran.stdout)["halfway/model"], ran.stderr
    assert ran.stderr.count("Trying to resume") == 4


def test_without_network_the_cache_serves_what_it_has(hub: str, tmp_path: Path) -> None:
    assert COMMIT in run(["-c", ASK, "good/model"], hub, tmp_path).stdout
    nowhere = "http://127.0.0.1:9"
    answers = json.loads(run(["-c", ASK, "good/model", "other/model"], nowhere, tmp_path).stdout)
    assert answers["good/model"][0] == COMMIT
    assert "not in the cache and the hub cannot be reached" in answers["other/model"]
    answers = json.loads(run(["-c", ASK, "other/model"], hub, tmp_path, HF_HUB_OFFLINE="1").stdout)
    assert "not in the cache and the hub cannot be reached" in answers["other/model"]


@pytest.mark.slow
def test_measuring_goes_on_with_the_models_that_are_there(hub: str, tmp_path: Path) -> None:
    models = ["none/model", "gated/model", "drops/model", "good/model"]
    data, cache = tmp_path / "data", tmp_path / "cache"
    command = ["-c", "from thermostats.cli.app import main; main()", "measure", *models]
    command += ["--what", "weights", "--data", str(data), "--json"]
    ran = run(command, hub, cache)
    assert ran.returncode == 1
    assert TOKEN not in ran.stdout + ran.stderr
    outcomes = {row["model"]: row["status"] for row in json.loads(ran.stdout)}
    assert outcomes == {**dict.fromkeys(models, "failed"), "good/model": "measured"}
    assert [path.suffix for path in (data / "measured").rglob("*") if path.is_file()] == [".csv"] * 3
