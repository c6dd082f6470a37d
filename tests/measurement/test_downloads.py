"""Downloads beside measuring, and a disk budget that deletes nothing but what was downloaded and is
not needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("huggingface_hub")

from thermostats.errors import ThermostatsError, TransientError, UsageError
from thermostats.measurement import execute, hub
from thermostats.measurement.engines import Inline, Job
from thermostats.measurement.execute import Downloads, _measure_jobs
from thermostats.measurement.spec import EngineSettings, Outcome, RunSpec

SIZE = 1000


def snapshot_of(cache: Path, model: str) -> Path:
    """A model of so many bytes in a cache, as the hub's library lays it out."""
    commit = model.encode().hex().ljust(40, "0")[:40]
    folder = cache / f"models--{model.replace('/', '--')}"
    for part in ("blobs", "refs", f"snapshots/{commit}"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "blobs" / commit).write_bytes(b"x" * SIZE)
    (folder / "refs" / "main").write_text(commit)
    link = folder / "snapshots" / commit / "model.safetensors"
    link.unlink(missing_ok=True)
    link.symlink_to(folder / "blobs" / commit)
    return folder


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A hub where every model is there and has so many bytes; what was fetched from it, in
    order."""
    fetched: list[str] = []

    def fetch(spec: RunSpec) -> None:
        if spec.model == "lab/flaky" and fetched.count("lab/flaky") < 2:
            fetched.append(spec.model)
            raise TransientError("the hub cannot be reached")
        fetched.append(spec.model)
        if spec.cache is not None:
            snapshot_of(Path(spec.cache), spec.model)

    def not_here(*_: object, **__: object) -> None:
        raise ThermostatsError("not in the cache")

    monkeypatch.setattr(execute, "fetch_folder", fetch)
    monkeypatch.setattr(hub, "fetch_model_folder", not_here)

    def download_bytes(model: str, revision: str) -> int:
        return SIZE * (9 if model == "lab/huge" else 1)

    monkeypatch.setattr(hub, "download_bytes", download_bytes)
    monkeypatch.setattr(execute, "PAUSES", (0.0, 0.0))
    yield fetched


def jobs(cache: Path, *models: str) -> list[Job]:
    return [Job(RunSpec(model, cache=str(cache))) for model in models]


def models(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.glob("models--*"))


def test_models_come_in_order_and_a_broken_connection_is_tried_again(
    tmp_path: Path, net: list[str]
) -> None:
    queue = Downloads(jobs(tmp_path, "lab/a", "lab/flaky", "lab/b"))
    ready = [each for _ in range(3) for each in queue.take(5.0)]
    queue.close()
    assert [(job.spec.model, error) for job, error in ready] == [
        ("lab/a", None),
        ("lab/flaky", None),
        ("lab/b", None),
    ]
    assert net == ["lab/a", "lab/flaky", "lab/flaky", "lab/flaky", "lab/b"]


def test_the_budget_holds_and_what_is_needed_stays(tmp_path: Path, net: list[str]) -> None:
    cache, others = tmp_path / "own", tmp_path / "others"
    snapshot_of(cache, "lab/left-over")
    theirs = snapshot_of(others, "lab/theirs")
    wanted = jobs(cache, "lab/a", "lab/b", "lab/c")
    queue = Downloads(wanted, cache, budget=2 * SIZE + SIZE // 2)
    first = queue.take(5.0)
    first += queue.take(5.0) if len(first) < 2 else []
    assert [job.spec.model for job, _ in first] == ["lab/a", "lab/b"]
    assert models(cache) == [
        "models--lab--a",
        "models--lab--b",
    ]  # what an earlier command left is gone
    assert queue.take(0.3) == []  # no place for the third
    queue.release_model(wanted[0])
    ((third, error),) = queue.take(5.0)
    queue.close()
    assert (third.spec.model, error) == ("lab/c", None)
    assert models(cache) == ["models--lab--b", "models--lab--c"]
    assert (theirs / "blobs").is_dir()


def test_a_model_larger_than_the_budget_is_refused_and_the_next_one_comes(
    tmp_path: Path, net: list[str]
) -> None:
    queue = Downloads(jobs(tmp_path, "lab/huge", "lab/a"), tmp_path, budget=5 * SIZE)
    ready = [each for _ in range(2) for each in queue.take(5.0)]
    queue.close()
    assert isinstance(ready[0][1], UsageError) and "larger than the disk budget" in str(ready[0][1])
    assert ready[1][1] is None
    assert net == ["lab/a"]


def test_two_commands_do_not_share_a_budget(tmp_path: Path, net: list[str]) -> None:
    first = Downloads(jobs(tmp_path, "lab/a"), tmp_path, budget=5 * SIZE)
    with pytest.raises(UsageError, match="another command"):
        Downloads(jobs(tmp_path, "lab/a"), tmp_path, budget=5 * SIZE)
    first.close()
    second = Downloads(jobs(tmp_path, "lab/a"), tmp_path, budget=5 * SIZE)
    second.close()
    first.thread.join(20.0)  # no thread is left to fetch from the next test's hub
    second.thread.join(20.0)


def test_the_next_models_come_while_one_is_measured(
    tmp_path: Path, net: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, fetch = threading.Event(), execute.fetch_folder

    def fetched(spec: RunSpec) -> None:
        fetch(spec)
        if len(net) == 3:
            here.set()

    monkeypatch.setattr(execute, "fetch_folder", fetched)

    class Slow(Inline):
        """Is through with the first model only when the last one is on this machine."""

        def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
            job = self.jobs.pop(0)
            assert here.wait(20.0), "models come one after the other"
            return [(job, Outcome(job.spec.model, "measured"))]

    wanted = [Job(RunSpec(name)) for name in ("lab/a", "lab/b", "lab/c")]
    outcomes = list(_measure_jobs(wanted, tmp_path, Slow(EngineSettings(), tmp_path), 0, None))
    assert [outcome.model for outcome in outcomes] == ["lab/a", "lab/b", "lab/c"] == net


def test_bytes_of_a_download_are_those_of_the_files_that_are_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights as safetensors where there are any, else the pickles; readmes and weights of other
    tools are not."""
    sizes = {
        "model.safetensors": 1000,
        "pytorch_model.bin": 2000,
        "config.json": 10,
        "tokenizer.model": 5,
        "README.md": 7,
        "onnx/model.onnx": 4000,
        "original/model.safetensors": 8000,
    }

    def listed(self: object, model: str, **options: object) -> SimpleNamespace:
        assert options["files_metadata"]
        files = [SimpleNamespace(rfilename=name, size=size) for name, size in sizes.items()]
        return SimpleNamespace(siblings=files, sha="0" * 40, gated=False)

    monkeypatch.setattr(hub.HfApi, "model_info", listed)
    assert hub.download_bytes("lab/model") == 1000 + 10 + 5
    del sizes["model.safetensors"]
    assert hub.download_bytes("lab/model") == 2000 + 10 + 5
