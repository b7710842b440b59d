"""Test the limits against the types that they are the largest values of."""

import struct

import pytest

from groupsdk.limits import MAX_INT32, MAX_STRING_BYTES


@pytest.mark.parametrize(("code", "largest"), [(">i", MAX_INT32), (">h", MAX_STRING_BYTES)])
def test_the_largest_value_fits_and_one_more_does_not(code: str, largest: int) -> None:
    assert struct.unpack(code, struct.pack(code, largest)) == (largest,)
    with pytest.raises(struct.error):
        struct.pack(code, largest + 1)
