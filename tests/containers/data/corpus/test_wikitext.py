"""Of an article's markup, its passages are left and nothing else."""

from __future__ import annotations

import pytest

pytest.importorskip("mwparserfromhell", reason="the extra 'training' is not installed")

from slipway.containers.data.corpus.documents import passages

ARTICLE = """{{Infobox person|name=Foo|birth={{birth date|1950|1|1}}|image=[[File:x.jpg|A [[nested]] one]]}}
'''Foo Bar''' (born {{circa|1950}}) is a [[physicist|theoretical ''physicist'']].<ref>{{a|b}}</ref> She lives
in [[Paris]], [http://e.org the capital] of France&nbsp;&mdash; see [[:Category:Foo]].
__NOTOC__
== Life ==
[[File:Foo.jpg|thumb|left|Foo in [[1970]]]]
In 1970 she moved to [[Berlin]]<!-- hidden -->.<br />It <small>rained</small>.
* item ''one'' [[here]]
# item two
: indented
{| class="wikitable"
! a !! b
|-
| 1 || 2
|}
<math>E = mc^2</math> is known. [[de:Foo]]

== References ==
{{reflist}}
[[Category:Physicists]]
"""


def test_the_passages_of_an_article() -> None:
    assert passages(ARTICLE) == [
        "Foo Bar (born) is a theoretical physicist. She lives",
        "in Paris, the capital of France — see.",
        "In 1970 she moved to Berlin.",
        "It rained.",
        "is known.",
    ]


@pytest.mark.parametrize(
    "markup",
    ["", "{{", "[[", "{|", "<ref>", "'''", "[[a|b", "{{a|{{b|[[c", "&#x110000;", "<", "\x00", "=" * 50],
)
def test_markup_that_is_not_closed_ends(markup: str) -> None:
    assert isinstance(passages(f"Before. {markup}\nAfter."), list)
