"""A layout places every rank once, refuses cuts that cannot be, and balances layers over stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.training.layout import Costs, ImpossibleLayout, Layout, balanced

DEGREE = st.integers(1, 5)
LAYOUTS = st.builds(Layout, data=DEGREE, sharded=DEGREE, tensor=DEGREE, pipeline=DEGREE)


@given(LAYOUTS)
def test_every_rank_has_a_place_of_its_own(layout: Layout) -> None:
    places = [layout.coordinates(rank) for rank in range(layout.world)]
    assert len(set(places)) == layout.world
    assert [layout.rank(place) for place in places] == list(range(layout.world))
    assert places == sorted(places)


@given(LAYOUTS)
def test_every_reader_has_as_many_ranks_and_one_that_speaks_for_it(layout: Layout) -> None:
    ranks = range(layout.world)
    assert Counter(map(layout.reader, ranks)) == dict.fromkeys(
        range(layout.readers), layout.tensor * layout.pipeline
    )
    speakers = [layout.reader(rank) for rank in ranks if layout.speaks(rank)]
    assert sorted(speakers) == list(range(layout.readers))


@given(LAYOUTS)
def test_ranks_that_cut_the_same_layer_are_neighbours(layout: Layout) -> None:
    groups = [
        list(ranks) for _, ranks in groupby(range(layout.world), lambda rank: layout.coordinates(rank)[:-1])
    ]
    assert [len(ranks) for ranks in groups] == [layout.tensor] * (layout.world // layout.tensor)


@given(LAYOUTS)
def test_data_parallel_takes_the_ranks_that_are_left(layout: Layout) -> None:
    found = Layout.of(layout.world, sharded=layout.sharded, tensor=layout.tensor, pipeline=layout.pipeline)
    assert found == layout
    assert found.world == layout.world


def test_without_a_degree_every_rank_reads_rows_of_its_own() -> None:
    layout = Layout.of(4)
    assert [layout.reader(rank) for rank in range(4)] == [0, 1, 2, 3]
    assert all(map(layout.speaks, range(4)))


def test_a_tensor_group_larger_than_a_node_is_seen() -> None:
    assert Layout(tensor=4, ranks_per_node=2).spans_nodes
    assert not Layout(tensor=2, ranks_per_node=4).spans_nodes


def test_a_layout_is_told_as_it_is_set() -> None:
    assert str(Layout(data=2, tensor=4, pipeline=2)) == "data=2 × tensor=4 × pipeline=2"
    assert (str(Layout()), Layout(data=4).cuts, Layout(data=2, sharded=2).cuts) == ("one rank", False, True)


BAD_WORLDS = [
    ({"tensor": 3}, "tensor=3 × pipeline=1 need a multiple of 3 ranks, and there are 8; set degrees whose"),
    (
        {"tensor": 4, "pipeline": 4},
        "a multiple of 16 ranks, and there are 8; set degrees whose product divides 8",
    ),
    ({"sharded": 5}, "sharded=5 × tensor=1 × pipeline=1 need a multiple of 5 ranks"),
]


@pytest.mark.parametrize(("degrees", "told"), BAD_WORLDS)
def test_degrees_whose_product_is_not_the_world_are_refused(degrees: dict[str, int], told: str) -> None:
    with pytest.raises(ImpossibleLayout, match=told):
        Layout.of(8, **degrees)


@dataclass(frozen=True)
class Model:
    layers: int = 4
    heads: int = 16
    intermediate: int = 48


BAD_MODELS = [
    (
        Layout(tensor=3),
        Model(),
        1,
        "tensor=3 does not divide the model's heads of 16; set tensor to a divisor",
    ),
    (
        Layout(tensor=8),
        Model(intermediate=172),
        1,
        "tensor=8 does not divide the model's feed-forward width of 172; set tensor to a divisor of 4",
    ),
    (Layout(pipeline=8), Model(), 1, "makes 8 stages, and the model has 4 layers; set pipeline to at most 4"),
    (Layout(pipeline=4), Model(), 2, "makes 8 stages, and the model has 4 layers; set pipeline to at most 2"),
]


@pytest.mark.parametrize(("layout", "model", "stages_per_rank", "told"), BAD_MODELS)
def test_a_model_that_cannot_be_cut_so_is_refused(
    layout: Layout, model: Model, stages_per_rank: int, told: str
) -> None:
    with pytest.raises(ImpossibleLayout, match=told):
        layout.check(model, stages_per_rank=stages_per_rank)


@pytest.mark.parametrize("layout", [Layout(), Layout(tensor=4, pipeline=2), Layout(data=3, pipeline=4)])
def test_a_model_that_can_be_cut_so_is_not(layout: Layout) -> None:
    layout.check(Model())
    layout.check_step(8, stages_per_rank=1, schedule="1f1b")


@pytest.mark.parametrize(
    ("micro_batches", "schedule", "stages_per_rank", "told"),
    [
        (3, "1f1b", 1, "4 stages, and a step has 3 micro-batches: stages would stand idle"),
        (7, "interleaved", 2, "8 stages, and a step has 7 micro-batches"),
        (9, "interleaved", 2, "pipeline_schedule=interleaved deals 9 micro-batches unevenly over 4 ranks"),
    ],
)
def test_a_step_that_a_pipeline_cannot_run_is_refused(
    micro_batches: int, schedule: str, stages_per_rank: int, told: str
) -> None:
    with pytest.raises(ImpossibleLayout, match=told):
        Layout(pipeline=4).check_step(micro_batches, stages_per_rank=stages_per_rank, schedule=schedule)


# A pipeline is cut so that its slowest stage is as fast as possible.


def of_stages(costs: Costs, counts: Sequence[int]) -> list[float]:
    """Return the time of each stage with these numbers of layers."""
    ends = list(accumulate(counts))
    found = [sum(costs.layers[end - count : end]) for end, count in zip(ends, counts, strict=True)]
    found[0] += costs.first
    found[-1] += costs.last
    return found


def dearest_of_all(costs: Costs, stages: int) -> float:
    """Return the least time of the slowest stage over all cuts."""
    layers = len(costs.layers)
    ways = (
        [end - begin for begin, end in zip((0, *cuts), (*cuts, layers), strict=True)]
        for cuts in combinations(range(1, layers), stages - 1)
    )
    return min(max(of_stages(costs, counts)) for counts in ways)


def test_a_dear_head_takes_layers_off_the_last_stage() -> None:
    costs = Costs(first=0.1, layers=[1.0] * 8, last=3.0)
    counts = balanced(costs, 4)
    assert (max(of_stages(costs, counts)), max(of_stages(costs, (2, 2, 2, 2)))) == (4.0, 5.0)
    assert (sum(counts), counts[-1]) == (8, 1)


@pytest.mark.parametrize("stages", [1, 2, 3, 5, 7])
def test_no_other_cut_has_a_cheaper_dearest_stage(stages: int) -> None:
    costs = Costs(first=0.5, layers=[1.0, 4.0, 1.0, 2.0, 2.0, 0.5, 3.0], last=2.5)
    counts = balanced(costs, stages)
    assert len(counts) == stages
    assert min(counts) >= 1
    assert max(of_stages(costs, counts)) == dearest_of_all(costs, stages)


def test_equal_layers_with_nothing_beside_them_are_dealt_evenly() -> None:
    assert balanced(Costs(first=0.0, layers=[1.0] * 28, last=0.0), 4) == (7, 7, 7, 7)
