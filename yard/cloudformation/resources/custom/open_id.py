"""The CDK's custom resource for a provider of OpenID Connect, done by the yard in place of its function.

Without a thumbprint the function would ask the provider for its certificate; the yard reaches no such host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from slipway.yard.cloudformation.resources.api import ApiResource, call, changeable, find, setting
from slipway.yard.cloudformation.resources.provider import Fidelity, Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, prop, response

UNKNOWN = "0" * 40  # moto wants one


def thumbprints(scope: ResourceScope) -> list[str]:
    return sorted(scope.properties.get("ThumbprintList") or [UNKNOWN])


def change_clients(scope: ResourceScope) -> None:
    """Add the clients that are new, and take away those that are gone."""
    old, new = (set(given.get("ClientIDList") or ()) for given in (scope.before, scope.properties))
    for verb, clients in (("add", new - old), ("remove", old - new)):
        preposition = "to" if verb == "add" else "from"
        for client in sorted(clients):
            operation = f"{verb}_client_id_{preposition}_open_id_connect_provider"
            scope.send(operation, OpenIDConnectProviderArn=scope.id, ClientID=client)


PROVIDERS: Mapping[str, Provider] = {
    "Custom::AWSCDKOpenIdConnectProvider": ApiResource(
        service="iam",
        fidelity=Fidelity.BEHAVIOURAL,
        create_call=call(
            "create_open_id_connect_provider",
            Url=prop("Url"),
            ClientIDList=prop("ClientIDList"),
            ThumbprintList=thumbprints,
        ),
        identity=response("OpenIDConnectProviderArn"),
        describe=find("get_open_id_connect_provider", "", OpenIDConnectProviderArn=ID),
        attributes={"Id": ID, "Thumbprints": lambda scope: json.dumps(thumbprints(scope))},
        settings=(
            changeable(
                "ThumbprintList",
                put=call(
                    "update_open_id_connect_provider_thumbprint",
                    OpenIDConnectProviderArn=ID,
                    ThumbprintList=thumbprints,
                ),
            ),
            changeable("ClientIDList", put=change_clients),
            setting("CodeHash RejectUnauthorized", put=lambda _scope: None),
        ),
        delete_call=call("delete_open_id_connect_provider", OpenIDConnectProviderArn=ID),
        accepts=frozenset({"ServiceToken", "ServiceTimeout", "Url", "ClientIDList", "ThumbprintList"}),
    ),
}
