import pytest

from maxsup.lab.reports.blocks import Column, Table, csv_text, shown


def test_a_csv_has_all_digits_and_no_formulas() -> None:
    table = Table("", [Column("name", is_number=False), Column("x")], [["@cmd", 0.1234567], ["b", float("nan")]])
    assert table.csv() == "name,x\n'@cmd,0.1234567\nb,\n"
    assert csv_text(["=a"], [[-1.5]]) == "'=a\n-1.5\n"


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1,234.500"), (1234, "1,234"), (None, "-"), (float("inf"), "-"), ("x", "x")]
)
def test_cells_are_shown_as_people_read_them(value: float | str | None, text: str) -> None:
    assert shown(value) == text
