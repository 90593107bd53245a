"""The main node's side of the rendezvous: admit nodes that prove their attempt, and name missing ones."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from contextlib import suppress

from slipway.containers.runtime.errors import Interruption, Refusal
from slipway.containers.runtime.rendezvous import peers, wire
from slipway.containers.runtime.rendezvous.peers import PeerMember, Peers, SignalPipe, unhealthy
from slipway.containers.runtime.rendezvous.wire import Message, PeerLink

_POLL_SECONDS = 0.2
_PROOF_SECONDS = 10.0  # within which a connection must say who it is
_TOLD_SECONDS = 5.0  # in which nodes that arrive hear that this one is not fit
_MOST_NAMED = 20


class Hub(Peers):
    def __init__(
        self,
        member: PeerMember,
        signals: SignalPipe,
        port: int,
        heartbeat_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(member, signals, heartbeat_seconds)
        self._say = say
        self._strangers: set[PeerLink] = set()
        self._listener = peers.listen(port)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self.selector.register(self._listener, selectors.EVENT_READ)
        if self.port != port:
            self._say(f"port {port} is in use here, so peers connect to {self.port}")

    def meet(self, deadline: float) -> int:
        if self.member.findings:
            with suppress(Refusal):
                self._admit_all(min(deadline, time.monotonic() + _TOLD_SECONDS))
            raise unhealthy(self.member.node, self.member.host, self.member.findings)
        self._admit_all(deadline)
        for link in list(self._strangers):
            self._turn_away(link)
        self.selector.unregister(self._listener)
        self._listener.close()
        port = peers.free_port(self.port + 1)
        self.tell({"go": port})
        return port

    def _admit_all(self, deadline: float) -> None:
        while len(self.links) < self.member.nodes - 1:
            if time.monotonic() > deadline:
                absent = [node for node in range(1, self.member.nodes) if node not in self.links]
                named = ", ".join(map(str, absent[:_MOST_NAMED]))
                more = ", …" if len(absent) > _MOST_NAMED else ""
                raise Interruption(
                    f"{len(absent)} of {self.member.nodes} nodes did not arrive in time: "
                    f"node index {named}{more}",
                    hint="see why their containers did not start, or died",
                )
            for event in self.poll(_POLL_SECONDS):
                if event.lost is not None:
                    raise Interruption(f"lost before the training began: {event.lost}")
            now = time.monotonic()
            # Who says nothing holds a descriptor for no reason.
            for link in [link for link in self._strangers if now - link.born > _PROOF_SECONDS]:
                self._turn_away(link)
            self.stop_if_asked()

    def ready(self, who: object) -> None:
        if isinstance(who, PeerLink) and who in self._strangers:
            hello = who.receive_one()
            if hello is not None:
                self._admit(who, hello)
            elif who.lost is not None:
                self._turn_away(who)
        elif who is None and self._listener.fileno() >= 0:
            self._accept()

    def close(self) -> None:
        self._listener.close()
        for link in self._strangers:
            link.close()
        super().close()

    def _accept(self) -> None:
        try:
            connection, address = self._listener.accept()
        except OSError:
            return  # it was a signal, or the caller has hung up again
        link = PeerLink(connection, str(address[0]))
        self._strangers.add(link)
        self.watch(link)
        link.send({"slipway": 1, "nonce": link.nonce})

    def _admit(self, link: PeerLink, hello: Message) -> None:
        node, nonce = hello.get("node"), hello.get("nonce")
        speaker = f"node {node} of {self.member.nodes}"
        if not isinstance(nonce, str) or not wire.is_proof(
            self.member.key, link.nonce, speaker, hello.get("proof")
        ):
            link.send({"refused": "this is another run, or another attempt"})
            self._say(f"refused a connection from {link.address}: it does not belong to this attempt")
            self._turn_away(link)
            return
        assert type(node) is int, "who proves our key is a launcher of ours"
        link.node, link.host = node, str(hello.get("host"))[:256]
        link.send({"welcome": wire.proof(self.member.key, nonce, "main")})
        self._check(link, hello)
        self._strangers.discard(link)
        self.links[node] = link

    def _check(self, link: PeerLink, hello: Message) -> None:
        assert link.node is not None
        who = f"node {link.node} ({link.host})"
        if link.node in self.links or not 0 < link.node < self.member.nodes:
            raise Refusal(
                f"{who} says its index is {link.node}, which is taken", hint="see who starts the nodes"
            )
        if hello.get("digest") != self.member.digest:
            self.links[link.node] = link  # so that it hears why
            raise Refusal(
                f"{who} runs other code or another configuration than node 0 ({self.member.host}): digest "
                f"{str(hello.get('digest'))[:12]} instead of {self.member.digest[:12]}",
                hint="start all nodes from one image and with the same arguments",
            )
        findings = hello.get("findings")
        if isinstance(findings, list) and findings:
            self.links[link.node] = link
            raise unhealthy(link.node, link.host, tuple(map(str, findings)))

    def _turn_away(self, link: PeerLink) -> None:
        self._strangers.discard(link)
        self.drop(link)
