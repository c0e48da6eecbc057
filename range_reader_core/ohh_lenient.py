"""Forgiving reading of records that are not in the exact layout."""

from range_reader_core.ohh_rejects import RejectError, RejectReason
from range_reader_core.ohh_schema import OhhHand


def decode_lenient(data: bytes) -> tuple[OhhHand, set[str]]:
    """Refuse everything, for now."""
    raise RejectError(RejectReason.TYPE, f"expected the exact layout, got {len(data)} bytes of another")
