"""A user's YAML takes bounded memory and time, and no key of it is lost silently."""

from __future__ import annotations

import base64

import pytest
import yaml

from slipway.yard import bounded_yaml
from slipway.yard.machines.hosts.planning import boot
from slipway.yard.services.imagebuilder.components import document
from slipway.yard.services.imagebuilder.components.actions import BadDocument

# BI-129: some 300 bytes that stand for 9**9 values.
LAUGHS = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))])
LONG_TEXTS = f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 1000)}]"
DEEP_ALIASES = "\n".join(
    ["a0: &a0 [x]", *(f"a{n}: &a{n} {'[' * 50}*a{n - 1}{']' * 50}" for n in range(1, 50))]
)
MERGES = "\n".join(
    ["a0: &a0 {k: x}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 10))]
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS, "with its aliases written out it holds more than 100000 values"),
        (MERGES, "with its aliases written out it holds more than 100000 values"),
        (LONG_TEXTS, "or 4000000 characters"),
        ("[" * 5000 + "]" * 5000, "nested deeper than 100 levels"),  # BI-130
        ("[" * 101 + "]" * 101, "nested deeper than 100 levels"),
        (DEEP_ALIASES, "nested deeper than 100 levels"),
        ("a: &a [*a]", "an alias contains itself"),
        ("nodes: 2\nother: 3\nnodes: 64", "the key 'nodes' stands twice, in lines 1 and 3"),  # BI-132
        ("a:\n  - {b: 1,\n     b: 2}", "the key 'b' stands twice, in lines 2 and 3"),
        ("a: 2026-13-45", "a value cannot be read: month must be in 1..12"),
        ("a: !!python/object/apply:os.system [id]", "could not determine a constructor"),  # BI-131
    ],
)
def test_yaml_that_is_too_large_or_says_two_things_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(yaml.YAMLError) as refused:
        bounded_yaml.load(text)
    assert said in str(refused.value)


def test_ordinary_yaml_means_what_it_means_to_pyyaml() -> None:
    text = "a: &a {b: [1, two, 3.0]}\nc: *a\nd: {<<: *a, e: null}\n"
    assert bounded_yaml.load(text) == yaml.safe_load(text)
    assert bounded_yaml.load("# nothing\n") is None


def test_a_component_document_of_nested_aliases_is_refused_before_a_bake() -> None:
    with pytest.raises(BadDocument, match="cannot be read as YAML: with its aliases written out"):
        document.parse(LAUGHS)


def test_user_data_of_nested_aliases_is_left_out_and_the_host_boots() -> None:
    encoded = base64.b64encode(f"#cloud-config\n{LAUGHS}".encode()).decode()
    found = boot.read_user_data(encoded)
    assert found.files == {}
    assert "with its aliases written out" in found.left_out[0]
