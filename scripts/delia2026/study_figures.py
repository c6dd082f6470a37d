"""Copy the study's result files with every sentence replaced: `python
scripts/delia2026/study_figures.py FROM TO`.

The tests read that copy, `tests/studies/delia2026/files`. Numbers, labels and the files' layout
stay byte for byte. A text of four words or more becomes a placeholder of the same length that
begins with its number and keeps a truth at its end, ": False"; a text that the study cut off ("The
capital of…") becomes the beginning of the placeholder of the whole one, so that texts that belong
together still do.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

TEXT = {".json": re.compile(r'"(?:[^"\\]|\\.)*"'), ".csv": re.compile(r'"(?:[^"]|"")*"|[^",\n]+')}
WORDS = 4
CUT = "..."
TRUTH = re.compile(r": (True|False)$")


def plain(token: str, kind: str) -> str:
    """The text that a token of a file stands for."""
    if kind == ".json":
        return str(json.loads(token))
    return token[1:-1].replace('""', '"') if token.startswith('"') else token


def token(text: str, kind: str, like: str) -> str:
    """A placeholder in place of the token `like`; it has no quotation marks."""
    return json.dumps(text) if kind == ".json" else f'"{text}"' if like.startswith('"') else text


def placeholders(texts: set[str]) -> dict[str, str]:
    """A placeholder for every sentence."""
    sentences = sorted(text for text in texts if len(text.split()) >= WORDS)
    complete = [text for text in sentences if not text.endswith(CUT)]
    instead = {}
    for i, text in enumerate(complete):
        end = match[0] if (match := TRUTH.search(text)) else ""
        instead[text] = (
            f"sentence {i:03d} ".ljust(len(text) - len(end), "x")[: max(len(text) - len(end), 12)]
            + end
        )
    for text in set(sentences) - set(complete):
        (full,) = [other for other in complete if other.startswith(text.removesuffix(CUT))]
        instead[text] = instead[full][: len(text) - len(CUT)] + CUT
    return instead


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, help="folder with the study's result files")
    parser.add_argument("target", type=Path, help="folder to write the copy to")
    arguments = parser.parse_args()
    files = {
        p.name: p.read_bytes().decode()
        for p in sorted(arguments.source.iterdir())
        if p.suffix in TEXT
    }
    kinds = {name: Path(name).suffix for name in files}
    texts = {
        plain(text, kinds[name])
        for name, file in files.items()
        for text in TEXT[kinds[name]].findall(file)
    }
    instead = placeholders(texts)
    arguments.target.mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        kind = kinds[name]

        def replaced(match: re.Match[str], kind: str = kind) -> str:
            text = plain(match[0], kind)
            return token(instead[text], kind, match[0]) if text in instead else match[0]

        (arguments.target / name).write_bytes(TEXT[kind].sub(replaced, file).encode())
    shutil.copyfile(arguments.source / "LICENSE", arguments.target / "LICENSE")


if __name__ == "__main__":
    main()
