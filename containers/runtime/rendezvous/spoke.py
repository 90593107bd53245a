"""The side of all other nodes in the rendezvous: find the main node, prove the attempt, and wait for all."""

from __future__ import annotations

import secrets
import select
import socket
import time

from slipway.containers.runtime.errors import Interruption, Refusal
from slipway.containers.runtime.exit_reports import from_json
from slipway.containers.runtime.rendezvous import peers, wire
from slipway.containers.runtime.rendezvous.peers import PeerMember, Peers, SignalPipe
from slipway.containers.runtime.rendezvous.wire import Message, PeerLink

_ANSWER_SECONDS = 5.0  # of a main node that many join at once; a program of another kind never answers
_FIRST_ANSWER_SECONDS = 1.0
_CONNECT_SECONDS = 3.0
_PAUSE_SECONDS = 0.2
_MAIN = 0


class Spoke(Peers):
    def __init__(
        self, member: PeerMember, signals: SignalPipe, address: str, port: int, heartbeat_seconds: float
    ) -> None:
        super().__init__(member, signals, heartbeat_seconds)
        self._address = address
        self._port = port
        self._last = "nobody listens there"
        self._patience = _FIRST_ANSWER_SECONDS

    def meet(self, deadline: float) -> int:
        link = self._connect(deadline)
        self.links[_MAIN] = link
        self.watch(link)
        while True:  # the main node has the deadline, and says when it has passed
            for event in self.poll(_PAUSE_SECONDS):
                if event.lost is not None:
                    raise Interruption(f"the main node was lost before the training began: {event.lost}")
                assert event.message is not None
                if (port := event.message.get("go")) is not None:
                    assert type(port) is int, f"the main node said to go to {port!r}"
                    return port
                _raise_if_ended(event.message)
            self.stop_if_asked()

    def _connect(self, deadline: float) -> PeerLink:
        while time.monotonic() < deadline:
            for port in peers.candidates(self._port):
                try:
                    connection = socket.create_connection((self._address, port), _CONNECT_SECONDS)
                except ConnectionRefusedError:
                    continue  # the next may be the one
                except OSError as error:
                    self._last = str(error)
                    break  # nobody is at this address yet: no port will differ
                if (link := self._introduced(connection)) is not None:
                    return link
            self._patience = min(self._patience + _FIRST_ANSWER_SECONDS, _ANSWER_SECONDS)
            self.stop_if_asked()
            select.select([self.signals.fileno()], [], [], _PAUSE_SECONDS)
        raise Interruption(
            f"node {self.member.node} ({self.member.host}) did not find the main node at {self._address}, "
            f"port {self._port} and up: {self._last}",
            hint="see whether the main node's container runs, and that the security group lets nodes talk",
        )

    def _introduced(self, connection: socket.socket) -> PeerLink | None:
        """Return a link to the main node of this attempt, or None if anything else listens on that port."""
        link = PeerLink(connection, self._address)
        nonce = secrets.token_hex(16)
        banner = self._answer(link)
        if banner is None or not isinstance(banner.get("nonce"), str):
            self._last = "another program listens there"
            link.close()
            return None
        link.send(self._hello(str(banner["nonce"]), nonce))
        answer = self._answer(link)
        if answer is None or not wire.is_proof(self.member.key, nonce, "main", answer.get("welcome")):
            self._last = "another run, or another attempt, listens there"
            link.close()
            return None
        link.node, link.host = _MAIN, self._address
        return link

    def _hello(self, nonce: str, own_nonce: str) -> Message:
        member = self.member
        return {
            "node": member.node,
            "nonce": own_nonce,
            "proof": wire.proof(member.key, nonce, f"node {member.node} of {member.nodes}"),
            "host": member.host,
            "digest": member.digest,
            "findings": list(member.findings),
        }

    def _answer(self, link: PeerLink) -> Message | None:
        ends = time.monotonic() + self._patience
        while link.lost is None and (left := ends - time.monotonic()) > 0:
            select.select([link.connection.fileno(), self.signals.fileno()], [], [], left)
            self.stop_if_asked()
            if (message := link.receive_one()) is not None:
                return message
        return None


def _raise_if_ended(message: Message) -> None:
    if "end" in message:
        ending = from_json(message["end"])
        refusal = Refusal(ending.reason)
        refusal.exit_code = ending.code
        raise refusal
