"""Claims about what is put before a person in the UI."""

import base64

import pytest

from range_reader_pipeline import metadata


def test_a_table_is_short_rounded_and_in_the_order_asked_for() -> None:
    """Prevents a page of unrounded floats: the UI prints every row and every digit."""
    records = [{"group": f"g{i}", "mrr": 0.0123456789, "n": i, "gap": None} for i in range(50)]
    value = metadata.table(records, {"mrr": "mean reciprocal rank", "group": "", "gap": ""})
    assert len(value.records) == metadata.MAX_TABLE_ROWS
    assert dict(value.records[3].data) == {"mrr": 0.01235, "group": "g3", "gap": ""}
    assert [(column.name, column.type) for column in value.schema.columns] == [
        ("mrr", "float"),
        ("group", "string"),
        ("gap", "string"),
    ]
    assert value.schema.columns[0].description == "mean reciprocal rank"


def test_an_empty_table_is_an_error() -> None:
    """Prevents an empty box that reads as "nothing happened"."""
    with pytest.raises(ValueError, match="at least one row"):
        metadata.table([])


def test_a_picture_is_inlined_whole() -> None:
    """Prevents a link to a file that the browser refuses to open."""
    png = bytes(range(256))
    value = metadata.picture(png, "a curve").value
    assert value is not None
    head, _, rest = value.partition("base64,")
    assert head == "![a curve](data:image/png;"
    assert base64.b64decode(rest.removesuffix(")")) == png
