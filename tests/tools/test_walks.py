"""The lists of files in docs/architecture.md are those that the walks go through."""

import pytest

from tools.walks import PAGE, WALKS, files_on, listed, listing

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("walk", WALKS)
def test_the_page_lists_the_files_of_a_walk(walk: str) -> None:
    found = listed(walk, PAGE.read_text())
    assert found is not None
    # If this fails: python -m tools.walks
    assert found[0] == listing(walk, files_on(walk))
