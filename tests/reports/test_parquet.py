"""The table of a run as a Parquet file, and what is said where nothing is installed that writes one."""

import sys
from pathlib import Path

import pytest

from tests.reports.test_comparison_files import reader, runs  # noqa: F401
from tui_evals.cli.output import Stop
from tui_evals.cli.run.ending import kind_named, write_results
from tui_evals.reports import comparison, results


def as_text(value):
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("numbers", [(1,), (1, 2)])
def test_it_holds_the_table_of_csv_with_numbers_as_numbers(reader, tmp_path, numbers, monkeypatch):  # noqa: F811
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(comparison, "_ROW_GROUP", 2)
    file = tmp_path / "out.parquet"
    write_results(reader, runs(reader, *numbers), file)
    made = pq.ParquetFile(file)
    assert made.num_row_groups == -(-made.metadata.num_rows // 2)
    several = len(numbers) > 1
    columns, rows = comparison.rows(reader, runs(reader, *numbers)) if several else results.rows(reader, reader.run(1))
    table = made.read()
    assert table.column_names == columns
    assert [list(map(as_text, row.values())) for row in table.to_pylist()] == [
        [
            as_text(comparison._value(value, comparison._kind(column)))
            for column, value in zip(columns, row, strict=True)
        ]
        for row in rows
    ]


def test_without_pyarrow_a_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "find_spec", lambda name: None)
    with pytest.raises(Stop, match=r"pip install 'tui_evals\[parquet\]'"):
        kind_named(tmp_path / "out.parquet")


def test_it_is_not_printed(reader, monkeypatch):  # noqa: F811
    monkeypatch.setattr(comparison, "find_spec", lambda name: sys)
    with pytest.raises(Stop, match="name a file"):
        write_results(reader, [reader.run(1)], Path("-"), "parquet")
