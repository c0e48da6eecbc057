"""Which parser reads a file: its name says, by the suffix below any compression. One place, so that every command agrees."""

from collections.abc import Iterator
from io import BufferedReader

from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh import parse_ohh, read_ohh
from range_reader_core.ohh_rejects import Reject
from range_reader_core.skeletons import NamedSkeletons
from range_reader_pipeline.suffixes import PHH_SUFFIXES, content_suffix


def parse_hands(stream: BufferedReader, file_name: str) -> Iterator[CanonicalHand | Reject]:
    """Yield every hand of a decompressed stream, and a ``Reject`` for every record that is none.

    Poker Hand History (``PHH_SUFFIXES``) goes through PokerKit's notation; everything else is read as Open Hand History.
    """
    return _parse_phh(stream, file_name) if _is_phh(file_name) else parse_ohh(stream, file_name)


def read_hands(stream: BufferedReader, file_name: str) -> Iterator[NamedSkeletons | CanonicalHand | Reject]:
    """Yield the same hands in the same order, ordinary ones as the skeletons that they encode to, many at once."""
    return _parse_phh(stream, file_name) if _is_phh(file_name) else read_ohh(stream, file_name)


def _is_phh(file_name: str) -> bool:
    return content_suffix(file_name) in PHH_SUFFIXES


def _parse_phh(stream: BufferedReader, file_name: str) -> Iterator[CanonicalHand | Reject]:
    from range_reader_pipeline.phh import parse_phh  # PokerKit is half of what a worker would have to import

    return parse_phh(stream, file_name)
