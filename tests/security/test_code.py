"""No code comes from a model, a cache or a table; nothing is started through a shell; nothing is
fetched unasked."""

from __future__ import annotations

import ast
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import command, model, snapshot, table

import thermostats
from thermostats.errors import DataError, ThermostatsError
from thermostats.tables import store

PACKAGE = Path(thermostats.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
FORBIDDEN = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "os.execv",
    "os.spawnv",
    "pickle.load",
    "pickle.loads",
    "marshal.loads",
    "shelve.open",
    "pd.read_pickle",
    "pandas.read_pickle",
    "yaml.load",
    "joblib.load",
    "np.fromregex",
    "tempfile.mktemp",
}
"""Calls that run what they are given, or open what another could put there."""
TOKEN = "hf_aSecretThatMustNotBeShown"  # noqa: S105


class Evil:
    """What a pickle makes of itself when it is loaded: a file that tells of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (self.path, "ran"))


def calls(path: Path) -> list[tuple[int, str, ast.Call]]:
    tree = ast.parse(path.read_bytes())
    return [
        (node.lineno, named(node.func), node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]


def named(function: ast.expr) -> str:
    """What is called, as it is written."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        return f"{named(function.value)}.{function.attr}"
    return ast.unparse(function)


def argument(call: ast.Call, name: str) -> str:
    return next(
        (ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == name), ""
    )


def forbidden(path: Path, name: str, call: ast.Call) -> bool:
    """Whether a call of this name runs what it reads, or could."""
    if name in FORBIDDEN or argument(call, "shell") not in ("", "False"):
        return True
    if name.endswith("torch.load"):
        return argument(call, "weights_only") != "True"
    if name in ("np.load", "numpy.load"):
        return argument(call, "allow_pickle") not in ("", "False")
    if name.endswith(("AutoModelForCausalLM.from_pretrained", "AutoTokenizer.from_pretrained")):
        return argument(call, "trust_remote_code") not in ("trust_remote_code", "False", "")
    if name.endswith("Environment") and "jinja2" in name and path.parent.name == "reporting":
        return (
            argument(call, "autoescape") != "True" and argument(call, "finalize") != "_escape_value"
        )
    first = call.args[0] if call.args else None
    return name.startswith("subprocess.") and isinstance(first, ast.Constant | ast.JoinedStr)


def test_no_module_runs_what_it_reads() -> None:
    calling = [(path, *each) for path in MODULES for each in calls(path)]
    assert len(calling) > 1000
    assert [
        f"{path}:{line}: {name}"
        for path, line, name, call in calling
        if forbidden(path, name, call)
    ] == []


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("eval(text)", True),
        ("pickle.load(stream)", True),
        ("subprocess.run(words, shell=True)", True),
        ("subprocess.run('ls')", True),
        ("subprocess.run(f'ls {folder}')", True),
        ("subprocess.run([program, '-c'], check=True)", False),
        ("torch.load(path)", True),
        ("torch.load(path, weights_only=True)", False),
        ("np.load(path, allow_pickle=True)", True),
        ("np.load(path)", False),
        ("AutoTokenizer.from_pretrained(name, trust_remote_code=True)", True),
        ("jinja2.Environment()", True),
        ("jinja2.Environment(finalize=_escape_value)", False),
    ],
)
def test_the_lint_tells_calls_apart(tmp_path: Path, line: str, refused: bool) -> None:
    path = tmp_path / "reporting" / "x.py"
    path.parent.mkdir()
    path.write_text(line)
    assert [forbidden(path, name, call) for _, name, call in calls(path)][:1] == [refused]


def test_a_pickle_of_weights_runs_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from thermostats.measurement.checkpoint import open_checkpoint

    told = tmp_path / "told"
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Evil(told)}))
    with pytest.raises(DataError, match="cannot be read as plain weights"):
        open_checkpoint(tmp_path)
    assert not told.exists()
    pickle.loads((tmp_path / "pytorch_model.bin").read_bytes())  # noqa: S301
    assert told.exists()


def test_a_compressed_pickle_is_not_unpacked(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from thermostats.measurement.checkpoint import open_checkpoint

    torch.save({"weight": torch.zeros(1000, 1000)}, tmp_path / "whole")
    with zipfile.ZipFile(tmp_path / "whole") as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as bomb:
        for name, content in parts.items():
            bomb.writestr(name, content)
    assert (tmp_path / "pytorch_model.bin").stat().st_size < 20_000
    with pytest.raises(DataError, match="compressed"):
        open_checkpoint(tmp_path)
    (tmp_path / "whole").replace(tmp_path / "pytorch_model.bin")
    assert open_checkpoint(tmp_path)["weight"].shape == (1000, 1000)


def test_code_of_a_model_does_not_run_unless_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    told = tmp_path / "told"
    folder = tmp_path / "own-model"
    folder.mkdir()
    auto = {
        "AutoConfig": "own.Config",
        "AutoModelForCausalLM": "own.Model",
        "AutoTokenizer": ["own.Words", None],
    }
    (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": auto}))
    (folder / "own.py").write_text(f"open({str(told)!r}, 'w').write('ran')\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": auto}))
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    done = command(
        "measure", folder, "--data", tmp_path / "mine", "--prompts", prompts(tmp_path), cwd=tmp_path
    )
    assert done.returncode != 0
    assert "--set trust_remote_code=yes" in done.stderr + done.stdout
    assert not told.exists()


def prompts(folder: Path) -> Path:
    path = folder / "three.txt"
    path.write_text("a b c\n")
    return path


def test_a_token_is_neither_shown_nor_kept(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    variables = {"HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    arguments = (
        "measure",
        "nobody/nothing",
        "--offline",
        "--data",
        "mine",
        "--prompts",
        prompts(tmp_path),
    )
    done = command(*arguments, cwd=tmp_path, **variables)
    assert done.returncode != 0
    assert TOKEN not in done.stdout + done.stderr
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


UNASKED = """
import socket, sys
def refuse(*arguments, **_):
    raise AssertionError(f"network: {arguments}")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from thermostats.cli import app as cli
for words in ("check", "ls models", "join models.csv --data mine"):
    sys.argv = ["thermostats", *words.split()]
    try:
        cli.main()
    except SystemExit as done:
        print(words, done.code, file=sys.stderr)
"""


def test_nothing_is_fetched_unasked(tmp_path: Path) -> None:
    (tmp_path / "models.csv").write_bytes(
        store.encode_csv(table("models", model("lab/new")), "models")
    )
    done = command(cwd=tmp_path, code=UNASKED)
    assert "network" not in done.stderr
    assert [line for line in done.stderr.splitlines() if line[-2:] == " 0"] == [
        "check 0",
        "ls models 0",
        "join models.csv --data mine 0",
    ]


OUTSIDE = """
import os, sys
from pathlib import Path
inside = [Path(name).resolve() for name in sys.argv[1].split(os.pathsep)]
def heard(event, arguments):
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link"):
        path = arguments[1] if event == "os.rename" else arguments[0]
        if isinstance(path, (str, bytes, os.PathLike)):
            place = Path(os.fsdecode(path)).absolute()
            place = place.parent.resolve() / place.name
            if not any(place.is_relative_to(folder) for folder in inside) and place != Path(os.devnull):
                print("OUTSIDE", event, place, file=sys.stderr)
sys.addaudithook(heard)
sys.dont_write_bytecode = True
from thermostats.cli import app as cli
sys.argv = ["thermostats", *sys.argv[2:]]
cli.main()
"""  # noqa: E501


@pytest.mark.parametrize("verb", ["join", "check", "ls", "report"])
def test_nothing_is_written_but_where_it_was_asked_for(
    tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workplaces import make_workplace

    made = make_workplace(tmp_path)
    (tmp_path / "models.csv").write_bytes(
        store.encode_csv(table("models", model("lab/new")), "models")
    )
    arguments, may = {
        "join": (["join", "models.csv", "--data", "data"], "data"),
        "check": (["check", "--data", "data"], "none"),
        "ls": (["ls", "runs", "--data", "data"], "none"),
        "report": (
            ["report", "C01", "--data", "data", "--out", "out", "--analyses", "analyses"],
            "out",
        ),
    }[verb]
    before = snapshot(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    allowed = os.pathsep.join(str(path) for path in (tmp_path / may, home, tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    for name in [name for name in os.environ if name.startswith("COV")]:
        monkeypatch.delenv(name)  # coverage writes files too
    places = {"HOME": str(home), "TMPDIR": str(tmp_path / "temporary"), "MPLCONFIGDIR": str(home)}
    done = command(
        allowed, *arguments, cwd=tmp_path, code=OUTSIDE, THERMOSTATS_CACHE="off", **places
    )
    assert done.returncode == 0, done.stderr
    assert "OUTSIDE" not in done.stderr
    after = snapshot(tmp_path)
    assert {
        name: after.get(name) for name in before if not name.startswith((f"{may}/", "home/"))
    } == {
        name: content
        for name, content in before.items()
        if not name.startswith((f"{may}/", "home/"))
    }
    assert made["data"].is_dir()


def test_a_link_to_what_are_no_weights_gives_a_sentence(tmp_path: Path) -> None:
    from thermostats.measurement.checkpoint import open_checkpoint

    for target, said in {
        "model.safetensors": "no weights",
        "/etc/passwd": "not a safetensors file",
    }.items():
        (tmp_path / "model.safetensors").symlink_to(target)
        with pytest.raises(ThermostatsError, match=said):
            open_checkpoint(tmp_path)
        (tmp_path / "model.safetensors").unlink()
