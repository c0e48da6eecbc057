"""Which file names are hand histories, and how such a file is compressed. Names only; contents are the parser's business."""

from typing import Final

OHH_SUFFIXES: Final = (".ohh", ".jsonl", ".ndjson", ".json")
PHH_SUFFIXES: Final = (".phh", ".phhs")
CONTENT_SUFFIXES: Final = OHH_SUFFIXES + PHH_SUFFIXES
CODECS: Final = {".gz": "gzip", ".zst": "zstd"}


def content_suffix(name: str) -> str | None:
    """Return which of ``CONTENT_SUFFIXES`` a file name ends in, below any compression suffix; None for another kind of file."""
    stem = name.lower()
    for suffix in CODECS:
        if stem.endswith(suffix):
            stem = stem.removesuffix(suffix)
            break
    return next((suffix for suffix in CONTENT_SUFFIXES if stem.endswith(suffix)), None)


def reading_of(name: str) -> str:
    """Return how a file of this name is read, as a short text: ``ohh``, ``phh``, ``ohh.gz``, ``phh.zst`` and so on.

    The same bytes under a name that is read otherwise are another thing to the pipeline: plain text named ``.gz`` holds nothing.
    """
    notation = "phh" if content_suffix(name) in PHH_SUFFIXES else "ohh"
    return notation + next((suffix for suffix in CODECS if name.lower().endswith(suffix)), "")


def codec_of(name: str) -> str | None:
    """Return how a file of this name is compressed, None for not at all."""
    return next((codec for suffix, codec in CODECS.items() if name.lower().endswith(suffix)), None)
