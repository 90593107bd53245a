"""A function's arguments and results arrive unchanged, and values of other kinds are not sent."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.checkpoint.tensor_file import DamagedTensorFile, TensorData, encode_header
from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.values import decode_value, encode_value

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_a_plain_value_comes_back_as_it_was(value: object) -> None:
    assert decode_value(encode_value(value, "it"), "it") == value


def test_a_loss_that_is_no_number_comes_back_and_a_tuple_as_a_list() -> None:
    found = decode_value(encode_value((math.nan, (0.9, 0.95)), "it"), "it")
    assert isinstance(found, list)
    assert math.isnan(found[0])
    assert found[1] == [0.9, 0.95]


def test_tensors_come_back_where_they_stood_with_their_type_and_shape() -> None:
    torch = pytest.importorskip("torch")
    weights = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    value = {"layers": [weights.t(), {"bias": torch.empty(0, 4)}], "step": torch.tensor(7), "loss": 0.5}
    found = decode_value(encode_value(value, "it"), "it")
    assert isinstance(found, dict)
    assert torch.equal(found["layers"][0], weights.t())
    assert found["layers"][0].dtype is torch.bfloat16
    assert found["layers"][1]["bias"].shape == (0, 4)
    assert (found["step"].item(), found["loss"]) == (7, 0.5)
    assert torch.equal(torch.as_tensor(decode_value(encode_value(weights, "it"), "it")), weights)


def nested() -> list[object]:
    inside: list[object] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"rate": [1, Fraction(1, 3)]}, r"it\['rate'\]\[1\] is of type Fraction, which does not travel"),
        ({"a": {1: 2}}, r"a key of it\['a'\] is of type int, which does not travel"),
        ({"of"}, "it is of type set"),
        (b"raw", "it is of type bytes"),
        (nested(), "it is nested too deeply, or contains itself"),
    ],
)
def test_what_is_no_json_is_refused_by_its_place_and_type(value: object, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        encode_value(value, "it")


def file_of(**tensors: bytes) -> bytes:
    held = [
        (name, TensorData(dtype="U8", shape=(len(content),), data=memoryview(content)))
        for name, content in tensors.items()
    ]
    return encode_header(held) + b"".join(content for _, content in tensors.items())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04K\x01.",  # a pickle
        file_of(other=b"1"),
        file_of(value=b"{"),
        file_of(value=b"[" * 100_000),
        file_of(value=b"[1]", **{json.dumps([4]): b"1"}),
        file_of(value=b"[1]", **{json.dumps("0"): b"1"}),
        file_of(value=b"[1]", name=b"1"),
        file_of(value=b"7", **{json.dumps([0, 1]): b"1"}),
    ],
)
def test_bytes_that_nobody_encoded_are_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(DamagedTensorFile, match="the result of rank 3"):
        decode_value(content, "the result of rank 3")
