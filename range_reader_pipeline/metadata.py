"""The only place that knows what Dagster's UI can show, and how much of it.

Tables print every row and every digit, so they are short and rounded. Markdown of less than ``INLINE_CHARACTERS`` shows in place,
longer text opens on a click. Each piece of metadata is stored several times in Dagster's database, so pictures are small (``plots``
sees to it) and anything long is a file that is linked.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import dagster as dg

MAX_TABLE_ROWS: Final = 20
INLINE_CHARACTERS: Final = 1000
SIGNIFICANT_DIGITS: Final = 4  # in tables
NUMBER_DIGITS: Final = 6  # of numbers by themselves, which are also drawn over time

_Value = TypeVar("_Value")

Cell = str | int | float | None


def table(records: Sequence[Mapping[str, Cell]], columns: Mapping[str, str] | None = None) -> dg.TableMetadataValue:
    """Return the first ``MAX_TABLE_ROWS`` records as a table.

    Args:
        records: rows by column name; None shows as an empty cell.
        columns: what to show, in order: name -> description. All columns of the first record by default.

    Raises:
        ValueError: there is no record.
    """
    if not records:
        msg = "a table needs at least one row; leave the entry out instead"
        raise ValueError(msg)
    names = list(columns or records[0])
    rows = [dg.TableRecord({name: _rounded(record[name]) for name in names}) for record in records[:MAX_TABLE_ROWS]]
    schema = dg.TableSchema(
        columns=[
            dg.TableColumn(name=name, type=_column_type(records, name), description=(columns or {}).get(name)) for name in names
        ]
    )
    return dg.MetadataValue.table(rows, schema=schema)


def column_schema(columns: Mapping[str, tuple[str, str]]) -> dg.MetadataValue[dg.TableSchema]:
    """Return the columns of a file: name -> (type, description)."""
    shown = [dg.TableColumn(name=name, type=kind, description=text) for name, (kind, text) in columns.items()]
    return dg.MetadataValue.table_schema(dg.TableSchema(columns=shown))


def text_block(text: str) -> dg.MarkdownMetadataValue:
    """Return preformatted text, such as an aligned table."""
    return dg.MetadataValue.md(f"```\n{text}\n```")


def rounded(numbers: Mapping[str, _Value]) -> dict[str, _Value | float]:
    """Return entries with floats of ``NUMBER_DIGITS`` significant digits: the UI shows every digit that it is given."""
    return {name: _digits(value, NUMBER_DIGITS) if isinstance(value, float) else value for name, value in numbers.items()}


def picture(png: bytes, alt: str) -> dg.MarkdownMetadataValue:
    """Return a PNG of ``plots``."""
    return dg.MetadataValue.md(f"![{alt}](data:image/png;base64,{base64.b64encode(png).decode()})")


def _rounded(cell: Cell) -> str | int | float:
    if cell is None:
        return ""
    return _digits(cell, SIGNIFICANT_DIGITS) if isinstance(cell, float) else cell


def _digits(number: float, count: int) -> float:
    return float(f"{number:.{count}g}")


def _column_type(records: Sequence[Mapping[str, Cell]], name: str) -> str:
    types = {type(record[name]) for record in records if record[name] is not None}
    if not types or str in types:
        return "string"
    return "float" if float in types else "int"
