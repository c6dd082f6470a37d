"""A hub on this machine that serves models from folders, each with a fault where asked, and a
study's models, tiny."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

GATED, MISSING, RENAMED, PICKLES, SHARDED = "gated", "missing", "renamed", "pickles", "sharded"
HANGS, DROPS, HALFWAY, BUSY, BROKEN, GONE = "hangs", "drops", "halfway", "429", "500", "gone"
FORBIDDEN, EXPIRED = "forbidden", "expired"
REFUSALS = {
    MISSING: (401, "RepoNotFound"),
    BUSY: (429, ""),
    BROKEN: (500, ""),
    FORBIDDEN: (403, ""),
    EXPIRED: (401, ""),
}
"""What the hub answers to everything about a model: status and X-Error-Code."""


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as downloading a model asks for."""

    folders: ClassVar[Mapping[str, Path]]
    faults: ClassVar[Mapping[str, str]]
    commits: ClassVar[Mapping[str, str]]
    requests: ClassVar[list[str]]
    commit = ""

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, *, body: bool) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        api = parts[:2] == ["api", "models"]
        model = "/".join(parts[2:4] if api else parts[:2])
        self.requests.append(self.path)
        fault = self.faults.get(model, "")
        if fault in (HANGS, DROPS):
            time.sleep(3 if fault == HANGS else 0)
        elif fault in REFUSALS or model.removesuffix("-new") not in self.folders:
            self.send(*REFUSALS.get(fault, REFUSALS[MISSING]))
        elif fault == RENAMED:
            self.send_response(307)
            self.send_header("Location", self.path.replace(model, f"{model}-new", 1))
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.serve(
                model.removesuffix("-new"), parts[4:] if api else parts[2:], api=api, body=body
            )

    def serve(self, model: str, rest: list[str], *, api: bool, body: bool) -> None:
        fault, folder = self.faults.get(model, ""), self.folders[model]
        self.commit = self.commits.get(model) or hashlib.sha1(model.encode()).hexdigest()  # noqa: S324
        names = sorted(path.name for path in folder.iterdir())
        revision = rest[1] if len(rest) > 1 else "main"
        if fault == GATED and (not api or rest == ["auth-check"]):
            self.send(403, "GatedRepo")
        elif revision not in ("main", self.commit) and rest[0] != "auth-check":
            self.send(404, "RevisionNotFound")
        elif api and rest[:1] == ["tree"]:
            tree = [
                {"type": "file", "path": n, "size": (folder / n).stat().st_size, "oid": n}
                for n in names
            ]
            self.send(200, content=json.dumps(tree).encode(), body=body)
        elif api:
            files = [{"rfilename": name, "size": (folder / name).stat().st_size} for name in names]
            about = {
                "id": model,
                "sha": self.commit,
                "siblings": files,
                "gated": "manual" if fault == GATED else False,
            }
            self.send(200, content=json.dumps(about).encode(), body=body)
        elif rest[-1] not in names:
            self.send(404, "EntryNotFound")
        else:
            content = (folder / rest[-1]).read_bytes()
            short = (
                len(content) // 2
                if fault == HALFWAY and rest[-1].endswith(".safetensors")
                else None
            )
            self.send(200, content=content, body=body, short=short)

    def send(
        self,
        status: int,
        code: str = "",
        content: bytes = b"{}",
        *,
        body: bool = True,
        short: int | None = None,
    ) -> None:
        self.send_response(status)
        digest = hashlib.sha256(content).hexdigest()
        headers = {"ETag": f'"{digest}"', "Content-Length": str(len(content))}
        headers |= {"Retry-After": "40"} if status == 429 else {}
        headers |= {"X-Repo-Commit": self.commit} if status == 200 else {}
        for name, value in (headers | ({"X-Error-Code": code} if code else {})).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content[:short])


@contextmanager
def serving(
    folders: Mapping[str, Path], faults: Mapping[str, str], commits: Mapping[str, str]
) -> Iterator[tuple[str, type[Hub]]]:
    """The address of a hub with the models of these folders; faults and commits: by model."""
    attributes: dict[str, Any] = {
        "folders": folders,
        "faults": faults,
        "commits": commits,
        "requests": [],
    }
    hub = type("Served", (Hub,), attributes)
    server = ThreadingHTTPServer(("127.0.0.1", 0), hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", hub
    finally:
        server.shutdown()
        server.server_close()
