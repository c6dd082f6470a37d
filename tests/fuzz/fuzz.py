"""Feed every reader hostile bytes: it must accept or refuse them, in 10 s and 2 GB, and leave the disk as it was.

`make fuzz` runs it: mutations of sound files (bytes, numbers, tokens, nodes of JSON), then the coverage-guided fuzzer
atheris where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from inspect import isfunction
from pathlib import Path
from typing import Any

from readers import Reader, readers

from thermostats.errors import ThermostatsError

SECONDS, BYTES = 10, 2 * 1024**3
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    10**400,
    1e308,
    -0.0,
    float("nan"),
    float("inf"),
    "",
    "a",
    "1",
    "NaN",
    "\x00",
    "\u202eabc",
    "=cmd|'/c calc'!A1",
    "../../etc/passwd",
    "/etc/passwd",
    "\ud800",
    [],
    {},
    [[]],
    [None],
    {"": None},
    "x" * 10_000,
    [1] * 1000,
    [2**62] * 20,
    {"text_config": {"text_config": {}}},
)
TOKENS = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\r\n",
    b"\n",
    b'"',
    b'""',
    b",",
    b"'",
    b"\\",
    b"[" * 3000,
    b"{",
    b"}",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"9" * 5000,
    b"-",
    b"0x10",
    b"null",
    b"true",
    b"\xed\xa0\x80",
    b"\xe2\x80\xae",
    b"=1+1",
    b"@SUM(A1)",
    b"\t",
    b"\x1a",
    b"__proto__",
    b"<script>",
    b" ",
    b"1_000",
    b"True",
    b"inf",
)


@dataclass
class Tally:
    """What became of the inputs of one reader."""

    reader: str
    inputs: int = 0
    guided: int = 0
    """Of these, by the coverage-guided fuzzer."""
    accepted: int = 0
    slowest: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)
    """Fault by its place: an input that brings it about, in hexadecimal."""


def mutated(seed: bytes, draw: random.Random) -> bytes:
    """A sound file with one to four things wrong."""
    content = seed
    if draw.random() < 0.5:
        content = _wrong_node(content, draw)
    for _ in range(draw.choice((0, 1, 1, 2, 4))):
        at, upto = sorted((draw.randint(0, len(content)), draw.randint(0, len(content))))
        upto = min(upto, at + 40) if draw.random() < 0.8 else upto
        kind = draw.randrange(6)
        if kind == 0:
            content = content[:at] + draw.choice(TOKENS) + content[at:]
        elif kind == 1:
            content = content[:at] + content[upto:]
        elif kind == 2:
            content = content[:upto] + content[at:upto] * draw.choice((1, 2, 30)) + content[upto:]
        elif kind == 3:
            content = content[:at] + draw.randbytes(min(upto - at, 8)) + content[upto:]
        elif kind == 4:
            content = content[:at] + draw.choice(TOKENS) + content[upto:]
        else:
            content = content[: draw.randint(0, len(content))]
    return content


def _wrong_node(content: bytes, draw: random.Random) -> bytes:
    """JSON, or the header of a safetensors file, with one node replaced, removed or renamed; else as it was."""
    start = 8 if content[8:9] == b"{" else 0
    length = int.from_bytes(content[:8], "little") if start else len(content)
    try:
        root = json.loads(content[start : start + length])
    except ValueError:
        numbers = [match.span() for match in re.finditer(rb"[\w.]+", content)]
        at, upto = draw.choice(numbers or [(0, 0)])
        value = json.dumps(draw.choice(VALUES)).encode()
        return content[:at] + value + content[upto:]
    places = list(_places(root))
    if not places:
        return json.dumps(draw.choice(VALUES)).encode()
    parent, name = draw.choice(places)
    kind = draw.randrange(4)
    if kind == 0 or isinstance(parent, list):
        parent[name] = draw.choice(VALUES)
    elif kind == 1:
        del parent[name]
    elif kind == 2:
        parent[str(draw.choice(VALUES))[:50]] = parent.pop(name)
    else:
        old = parent[name]
        parent[name] = old + draw.choice((1, -1, 8, 2**40)) if isinstance(old, int | float) else [old]
    text = json.dumps(root).encode()
    head = draw.choice((len(text), len(text), len(text) + 1, 2**40)).to_bytes(8, "little") if start else b""
    return head + text + content[start + length :]


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for name, value in list(node.items()) if isinstance(node, dict) else list(enumerate(node)):
        yield node, name
        if isinstance(value, dict | list):
            yield from _places(value)


class Hang(BaseException):
    """A reader took too long."""


@contextmanager
def limits() -> Iterator[None]:
    """Memory of 2 GB beyond what is in use, and a clock that ends what takes too long."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, before[1]))

    def ring(*_: object) -> None:
        raise Hang

    old = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, old)
        resource.setrlimit(resource.RLIMIT_AS, before)


def one_input(reader: Reader, content: bytes, folder: Path, tally: Tally) -> None:
    """Give one input to a reader and note what is wrong with what it did."""
    (folder / reader.file).write_bytes(content)
    tally.inputs += 1
    began = time.perf_counter()
    signal.alarm(SECONDS)
    try:
        reader.call(folder / reader.file)
        tally.accepted += 1
    except ThermostatsError:
        pass
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "thermostats" in frame.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        tally.faults.setdefault(f"{type(error).__name__} at {place}: {str(error)[:80]!a}", content.hex()[:20_000])
    finally:
        signal.alarm(0)
    tally.slowest = max(tally.slowest, time.perf_counter() - began)
    names = {entry.name for entry in os.scandir(folder)}
    if names != {reader.file, *(name for name, _ in reader.others)} or (folder / reader.file).read_bytes() != content:
        tally.faults.setdefault(f"the disk changed: {sorted(names)}", content.hex()[:20_000])


@contextmanager
def place(reader: Reader) -> Iterator[Path]:
    """A folder with the files that stand beside the one that is read."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        for other, content in reader.others:
            (Path(name) / other).write_bytes(content)
        yield Path(name)


def mutate(reader: Reader, inputs: int, seed: int, seconds: float = float("inf")) -> Tally:
    """So many mutations of a reader's seeds, or as many as the time allows."""
    draw, tally = random.Random(f"{seed} {reader.name}"), Tally(reader.name)  # noqa: S311
    began = time.perf_counter()
    with place(reader) as folder, limits():
        for content in reader.seeds:
            one_input(reader, content, folder, tally)
        while tally.inputs < inputs and time.perf_counter() - began < seconds:
            one_input(reader, mutated(draw.choice(reader.seeds), draw), folder, tally)
    return tally


def guide(reader: Reader, inputs: int, seconds: int) -> None:
    """Hand the process over to atheris; it does not return."""
    import atheris

    tally = Tally(reader.name)
    for module in [module for name, module in sys.modules.items() if name.startswith("thermostats.")]:
        for value in vars(module).values():
            if isfunction(value) and value.__module__ == module.__name__:
                atheris.instrument_func(value)
    with place(reader) as folder, tempfile.TemporaryDirectory() as corpus:
        for number, content in enumerate(reader.seeds):
            (Path(corpus) / str(number)).write_bytes(content)

        def test(content: bytes) -> None:
            one_input(reader, content, folder, tally)
            if tally.faults:
                print("FAULT", json.dumps(tally.faults), flush=True)
                tally.faults.clear()

        options = [f"-runs={inputs}", f"-max_total_time={seconds}", "-print_final_stats=1", "-max_len=20000"]
        signal.signal(signal.SIGALRM, _ring)
        atheris.Setup([sys.argv[0], *options, corpus], test)
        atheris.Fuzz()


def _ring(*_: object) -> None:
    raise Hang


def guided(name: str, inputs: int, seconds: int) -> Tally:
    """What atheris found in a process of its own."""
    command = [sys.executable, __file__, "--guide", name, "--inputs", str(inputs), "--seconds", str(seconds)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    executed = re.search(r"number_of_executed_units: (\d+)", ran.stderr)
    tally = Tally(name, int(executed[1]) if executed else 0)
    tally.guided = tally.inputs
    for line in ran.stdout.splitlines():
        if line.startswith("FAULT "):
            tally.faults |= json.loads(line.removeprefix("FAULT "))
    if not executed:
        tally.faults["atheris did not end"] = ran.stderr[-500:]
    return tally


def main() -> None:
    """Run the fuzzers and append what they found to a file of JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=3000, help="of each reader and fuzzer")
    parser.add_argument("--seconds", type=int, default=60, help="of each reader and fuzzer at most")
    parser.add_argument("--readers", default="", help="beginnings of their names, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--guided", action="store_true", help="with atheris instead")
    parser.add_argument("--guide", default="", help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=Path("build/fuzz.jsonl"))
    given = parser.parse_args()
    found = readers()
    if given.guide:
        guide(found[given.guide], given.inputs, given.seconds)
    chosen = [name for name in found if name.startswith(tuple(given.readers.split(",")))]
    given.results.parent.mkdir(parents=True, exist_ok=True)
    faults = 0
    for name in chosen:
        if given.guided:
            tally = guided(name, given.inputs, given.seconds)
        else:
            tally = mutate(found[name], given.inputs, given.seed, given.seconds)
        faults += len(tally.faults)
        print(
            tally.reader, tally.inputs, tally.accepted, f"{tally.slowest:.2f} s", *tally.faults, sep="\n  ", flush=True
        )
        with given.results.open("a") as stream:
            stream.write(json.dumps({"seed": given.seed, **asdict(tally)}) + "\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
