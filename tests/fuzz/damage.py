"""Sound files with something wrong in them, as Hypothesis strategies, and what a reader may do with
one."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from conftest import limited_memory
from hypothesis import strategies as st
from readers import Reader

from thermostats.errors import ThermostatsError

TOKENS = [
    *b'\x00 \xff\xfe \xef\xbb\xbf \r \r\n \n " "" , \' \\ { } NaN Infinity -Infinity 1e999 - 0x10 '
    b"null true".split(b" "),
    *rb"=1+1 @SUM(A1) __proto__ <script> 1_000 True inf".split(b" "),
    *(b" ", b"\t", b"\x1a", b"\xed\xa0\x80", b"\xe2\x80\xae", b"[" * 3000, b"9" * 5000),
]
VALUES = [
    *json.loads(
        "[null, true, false, 0, -1, 1, 2147483648, 9223372036854775808, 1e308, -0.0, NaN, "
        'Infinity, "", "a"]'
    ),
    *json.loads(
        r'["1", "NaN", "\u0000", "\u202eabc", "=cmd|\u0027/c calc\u0027!A1", "../../etc/passwd", '
        r'"\ud800"]'
    ),
    *json.loads('[[], {}, [[]], [null], {"": null}, {"text_config": {"text_config": {}}}]'),
    *(2**64, 10**400, "x" * 10_000, [1] * 1000, [2**62] * 20),
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(VALUES)
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
)
"""Anything that JSON can say."""


@st.composite
def damaged(draw: st.DrawFn, sound: bytes) -> bytes:
    """A sound file of which a node may be another, and of which up to four places are cut, doubled
    or overwritten."""
    content = _wrong_node(draw, sound) if draw(st.booleans()) else sound
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 40) | st.just(len(content))))
        kept = content[start:end] * draw(st.sampled_from((0, 1, 2, 30)))
        content = (
            content[:start]
            + kept
            + draw(st.sampled_from(TOKENS) | st.binary(max_size=8))
            + content[end:]
        )
    return content


def _wrong_node(draw: st.DrawFn, content: bytes) -> bytes:
    """JSON, or the header of a safetensors file, with a node replaced, removed or renamed; else a
    word replaced."""
    start = 8 if content[8:9] == b"{" else 0
    length = int.from_bytes(content[:8], "little") if start else len(content)
    value = draw(LEAVES)
    try:
        root = json.loads(content[start : start + length])
    except ValueError:
        words = [match.span() for match in re.finditer(rb"[\w.]+", content)]
        at, upto = draw(st.sampled_from(words or [(0, 0)]))
        return content[:at] + json.dumps(value).encode() + content[upto:]
    places = list(_places(root))
    if not places:
        return json.dumps(value).encode()
    parent, name = draw(st.sampled_from(places))
    old, kind = parent[name], draw(st.sampled_from(("other", "removed", "renamed", "moved")))
    if kind == "moved" and isinstance(old, int | float):
        parent[name] = old + draw(st.sampled_from((1, -1, 8, 2**40)))
    elif kind == "removed":
        del parent[name]
    elif kind == "renamed" and isinstance(parent, dict):
        parent[str(value)[:50]] = parent.pop(name)
    else:
        parent[name] = value
    text = json.dumps(root).encode()
    head = (
        draw(st.sampled_from((len(text), len(text) + 1, 2**40))).to_bytes(8, "little")
        if start
        else b""
    )
    return head + text + content[start + length :]


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for name, value in list(node.items()) if isinstance(node, dict) else list(enumerate(node)):
        yield node, name
        if isinstance(value, dict | list):
            yield from _places(value)


@contextmanager
def place(reader: Reader) -> Iterator[Path]:
    """Path of the file that is read, among the files that stand with it."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        for other, content in reader.others:
            (Path(name) / other).write_bytes(content)
        yield Path(name) / reader.file


def accept_or_refuse(reader: Reader, content: bytes) -> None:
    """Give a file to a reader: success or a ThermostatsError, never another exception, and the disk
    as it was."""
    with place(reader) as path, limited_memory():
        path.write_bytes(content)
        with suppress(ThermostatsError):
            reader.call(path)
        names = {file.name for file in path.parent.iterdir()}
        assert names == {reader.file, *(name for name, _ in reader.others)}, "files came or went"
        assert path.read_bytes() == content, "the file changed"
