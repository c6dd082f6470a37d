"""Report how long sentences are and how easily they read: `python scripts/readability.py`.

Flesch reading ease = 206.835 − 1.015 words/sentences − 84.6 syllables/words (Flesch 1948); plain
English scores 60 or more, scientific prose 30 to 50. The figures inform an editor. Nothing enforces
them, since short for its own sake is choppy. Code, tables and headings are left out, a number or
place in a template counts as one word.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GROUPS = {
    "words of claims": ("analyses/*.md",),
    "templates of pages": (
        "thermostats/reporting/templates/*.md",
        "thermostats/starting_points/*.md.txt",
    ),
    "README": ("README.md",),
    "docs": ("docs/*.md", "docs/explanation/*.md", "docs/how-to/*.md"),
    "architecture, contributing": ("ARCHITECTURE.md", "CONTRIBUTING.md"),
    "docstrings": ("thermostats/**/*.py",),
}
NOT_PROSE = (
    r"(?s)^```.*?^```$",
    r"(?s)<!--.*?-->",
    r"(?s){%.*?%}",
    r"(?m)^ *[|#>].*$",
    r"(?m)^ {4,}\S.*$",
)
LABEL = re.compile(r"(?m)^(?:Source|Rows|Measures|Needs|[a-z ]+): *")
FEWEST = 4
"""Words of a sentence; what is shorter is a label."""
SILENT = re.compile(r"(?<=[a-z])(?:(?<![^aeiouy]l)e|(?<![td])ed|(?<![csxzg])(?<![^aeiouy]l)es)$")
"""Endings that are no syllable: gave, measured, tables."""


def prose(text: str) -> str:
    """Text of a Markdown template without what is no prose."""
    for pattern in NOT_PROSE:
        text = re.sub(pattern, "", text, flags=re.M)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", LABEL.sub("\n\n", text))
    return re.sub(r"{{.*?}}|`[^`]*`", "one", text, flags=re.S)


def docstrings(source: str) -> str:
    """Docstrings of public names, one paragraph each."""
    nodes = (
        n
        for n in ast.walk(ast.parse(source))
        if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)
    )
    public = (n for n in nodes if isinstance(n, ast.Module) or not n.name.startswith("_"))
    return "\n\n".join(ast.get_docstring(n) or "" for n in public)


def sentences(text: str) -> Iterator[list[str]]:
    """Words of every sentence; a paragraph or item of a list ends one."""
    for paragraph in re.split(r"\n\s*\n|\n *(?:[-*]|\d+\.) ", text):
        for sentence in re.split(r"(?<=[.!?:;])\s+(?=[A-Z“])", paragraph):
            words = re.findall(r"[^\W_](?:[\w'’-]*\w)?", sentence)
            if len(words) >= FEWEST:
                yield words


def syllables(word: str) -> int:
    """Groups of vowels, a silent ending left out: an approximation."""
    return max(1, len(re.findall(r"[aeiouy]+", SILENT.sub("", word.lower()))))


def scores(texts: list[str]) -> tuple[int, float, float, float]:
    """Sentences, mean words a sentence, share of sentences above 30 words, Flesch reading ease."""
    parsed = [sentence for text in texts for sentence in sentences(text)]
    words = [word for sentence in parsed for word in sentence]
    length = len(words) / len(parsed)
    ease = 206.835 - 1.015 * length - 84.6 * sum(map(syllables, words)) / len(words)
    return len(parsed), length, sum(len(sentence) > 30 for sentence in parsed) / len(parsed), ease


def main() -> None:
    """Print a line for each group of files."""
    print(f"{'':28}{'sentences':>10}{'words each':>12}{'above 30':>10}{'Flesch':>8}")
    for group, patterns in GROUPS.items():
        paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
        texts = [path.read_text(encoding="utf-8") for path in paths]
        n, length, long, ease = scores(
            [
                docstrings(text) if path.suffix == ".py" else prose(text)
                for path, text in zip(paths, texts, strict=True)
            ]
        )
        print(f"{group:28}{n:10,}{length:12.1f}{long:10.0%}{ease:8.0f}")


if __name__ == "__main__":
    main()
