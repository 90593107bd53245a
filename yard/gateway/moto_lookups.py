"""What moto works out anew at every call though it never changes here: it is worked out once.

Beside what a call does, these took most of its time: who the caller's account is (moto looks into all
partitions, and makes AWS's 1400 policies for each), which services there are, and what each of them can do.
"""

from __future__ import annotations

from functools import lru_cache

from slipway.yard.endpoint import ACCOUNT


def keep() -> None:
    """Answer them from memory; the yard has one account, and moto's code does not change while it runs."""
    from moto import backends
    from moto.core import responses
    from moto.iam import models

    modules = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    responses.method_names_from_class = lru_cache(maxsize=None)(responses.method_names_from_class)
    models.get_account_id_from = lambda _access_key: ACCOUNT
