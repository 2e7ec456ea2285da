"""What a refusal is recognised by: the kind of error, its code, and the values it names. Its words may change."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from maxsup.core.errors import error_code


@contextmanager
def refused(kind: type[Exception], code: str, *values: str) -> Iterator[None]:
    """Expect an error of a kind with a code, whose sentence names the values."""
    with pytest.raises(kind) as caught:
        yield
    assert error_code(caught.value) == code
    assert [value for value in values if value not in str(caught.value)] == []
