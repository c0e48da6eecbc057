"""The service answers what the reader says, refuses what is wrong with the reason, and holds its bounds."""

import asyncio
import http.client
import json
import math
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI

from range_reader_core import cards
from range_reader_core.hand import CanonicalHand
from range_reader_core.inference import RangeReader, ReadRequest
from range_reader_pipeline.service import BELIEF_EXAMPLE, ESTIMATE_EXAMPLE, build_app, serve
from range_reader_pipeline.service_limits import RequestLimits
from range_reader_pipeline.service_messages import KINDS, BeliefQuestion, hand_of
from range_reader_pipeline.service_queue import BusyError, ReadQueue
from tests.core import hands
from tests.core.readers import random_reader

NAMES = {kind: name for name, kind in KINDS.items()}


class Client:
    """Asks a server on the loopback interface."""

    def __init__(self, port: int) -> None:
        """Ask the server on a port."""
        self.port = port

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        """Return status and decoded answer; an HTML page as text."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, body, {"content-type": "application/json"} if body is not None else {})
            response = connection.getresponse()
            text = response.read().decode()
            return response.status, text if response.getheader("content-type", "").startswith("text/html") else json.loads(text)

    def post(self, path: str, message: object) -> tuple[int, Any]:
        """Return status and answer to a message."""
        return self.ask("POST", path, json.dumps(message).encode())


def _running(app: FastAPI) -> Iterator[Client]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.01)
    yield Client(server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def reader() -> RangeReader:
    return random_reader()


@pytest.fixture(scope="module")
def client(reader: RangeReader) -> Iterator[Client]:
    yield from _running(build_app(reader))


def hand_message(hand: CanonicalHand) -> dict[str, Any]:
    """Return a hand as the service takes it."""
    events = []
    for event in hand.events:
        if event.board:
            events.append({"kind": NAMES[event.kind], "board": [cards.format_card(card) for card in event.board]})
        else:
            events.append({"kind": NAMES[event.kind], "seat": event.seat, "chips": event.chips})
    holes = {str(seat): cards.format_combo(cards.combo_index(*pair)) for seat, pair in enumerate(hand.hole_cards) if pair}
    return {
        "stacks": hand.stacks,
        "button": hand.button,
        "big_blind": hand.big_blind,
        "hole_cards": holes,
        "events": events,
    }


def test_a_belief_is_what_the_reader_says(client: Client, reader: RangeReader) -> None:
    """A hand that changes on the way through JSON would be read as another one."""
    for hand in hands.random_hands(31, 4):
        for single in (True, False):
            question = {"hand": hand_message(hand), "villain": 1, "perspective": 0, "single_forward": single}
            status, answer = client.post("/belief", question)
            assert status == 200, answer
            expected = reader.belief(hand, 1, 0, num_relabelings=1 if single else 24)
            np.testing.assert_allclose(answer["probabilities"], expected, rtol=0, atol=1e-6)


def test_messages_become_the_hand_they_say() -> None:
    """All-in flags are not sent; they follow from the stacks."""
    num_all_in = 0
    for hand in hands.random_hands(32, 40):
        made = hand_of(BeliefQuestion.model_validate({"hand": hand_message(hand), "villain": 1, "perspective": 0}))
        assert made.events == hand.events
        assert (made.stacks, made.button, made.hole_cards) == (hand.stacks, hand.button, hand.hole_cards)
        num_all_in += sum(event.is_all_in for event in hand.events)
    assert num_all_in > 5


def test_a_step_and_a_watcher_can_be_asked_for(client: Client, reader: RangeReader) -> None:
    """The read at a decision in the past, and the read of somebody without cards."""
    hand = hands.three_way_showdown()
    question = {"hand": hand_message(hand), "villain": 0, "perspective": None, "step": 3, "single_forward": True}
    status, answer = client.post("/belief", question)
    assert status == 200
    expected = reader.belief(hand, 0, None, step=3, num_relabelings=1)
    np.testing.assert_allclose(answer["probabilities"], expected, rtol=0, atol=1e-6)


def test_an_open_hand_history_object_is_read(client: Client) -> None:
    """Tools that write OHH need not translate their hands."""
    status, answer = client.post("/belief", {"ohh": OHH, "villain": 1, "perspective": 0, "single_forward": True})
    assert status == 200, answer
    assert math.isclose(sum(answer["probabilities"]), 1.0, abs_tol=1e-9)
    status, answer = client.post("/belief", {"ohh": OHH | {"game_type": "Omaha"}, "villain": 1, "perspective": 0})
    assert status == 400
    assert "GAME_TYPE" in answer["detail"]


def test_an_estimate_covers_the_live_seats_and_deals_worlds(client: Client, reader: RangeReader) -> None:
    """What an arena asks once per decision, in one request."""
    status, answer = client.post("/estimate", ESTIMATE_EXAMPLE)
    assert status == 200, answer
    hand = hand_of(BeliefQuestion.model_validate(BELIEF_EXAMPLE))
    assert [belief is not None for belief in answer["ranges"]] == [True, False, False]
    np.testing.assert_allclose(answer["ranges"][0], reader.belief(hand, 0, 2), rtol=0, atol=1e-6)
    assert answer["worlds"]["seats"] == [0]
    assert len(answer["worlds"]["combos"]) == 2
    assert client.post("/estimate", ESTIMATE_EXAMPLE)[1]["worlds"] == answer["worlds"]  # the seed decides
    assert client.post("/estimate", ESTIMATE_EXAMPLE | {"num_worlds": 0})[1]["worlds"] is None


def test_requests_together_are_each_answered_with_their_own(client: Client, reader: RangeReader) -> None:
    """Reading together must not swap answers, and a bad one must not spoil the others."""
    dealt = hands.random_hands(33, 24)
    questions = [{"hand": hand_message(hand), "villain": 1, "perspective": 0, "single_forward": True} for hand in dealt]
    questions[5] = questions[5] | {"step": 500}
    answers: list[Any] = [None] * len(dealt)

    def ask(index: int) -> None:
        answers[index] = client.post("/belief", questions[index])

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(dealt))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, (hand, (status, answer)) in enumerate(zip(dealt, answers, strict=True)):
        assert status == (400 if index == 5 else 200), answer
        if index != 5:
            np.testing.assert_allclose(answer["probabilities"], reader.belief(hand, 1, 0, num_relabelings=1), rtol=0, atol=1e-5)


def _changed(**fields: object) -> dict[str, Any]:
    return BELIEF_EXAMPLE | fields


def _changed_hand(**fields: object) -> dict[str, Any]:
    return BELIEF_EXAMPLE | {"hand": BELIEF_EXAMPLE["hand"] | fields}


@pytest.mark.parametrize(
    ("question", "status", "reason"),
    [
        (_changed(villain=2), 400, "two different seats"),
        (_changed(perspective=1), 400, "cards of perspective seat 1 are unknown"),
        (_changed(step=99), 400, "expected a step in"),
        (_changed(villain=77), 422, "villain: Input should be less than 16"),
        (_changed(vilain=1), 422, "vilain: Extra inputs are not permitted"),
        (_changed(ohh={}), 422, "either as `hand` or as `ohh`"),
        (_changed(hand=None), 422, "either as `hand` or as `ohh`"),
        (_changed_hand(button=5), 400, "button 5 is not a seat"),
        (_changed_hand(stacks=[1.0]), 422, "hand.stacks: List should have at least 2 items"),
        (_changed_hand(stacks=[200.0, math.nan, 100.0]), 422, "hand.stacks.1"),
        (_changed_hand(big_blind=0.0), 422, "hand.big_blind: Input should be greater than 0"),
        (_changed_hand(hole_cards={"2": "TdT"}), 422, "hand.hole_cards.2: String should match pattern"),
        (_changed_hand(hole_cards={"2": "TdTd"}), 400, "a card twice: Td"),
        (_changed_hand(hole_cards={"2": "TdTc", "1": "AsTd"}), 400, "a card twice: Td"),
        (
            _changed_hand(events=[], hole_cards={"0": "TdTc"}) | {"villain": 2, "perspective": 0},
            400,
            "nothing happens after the hole cards",
        ),
        (_changed_hand(events=[{"kind": "bet", "seat": 0, "chips": 201.0}]), 400, "adds 201.0 chips (bet) but has 200.0 left"),
        (_changed_hand(events=[{"kind": "fold", "seat": 0, "chips": 1.0}]), 400, "a fold adds no chips"),
        (_changed_hand(events=[{"kind": "fold", "seat": 0}, {"kind": "check", "seat": 0}]), 400, "which has folded"),
        (_changed_hand(events=[{"kind": "fold", "seat": 9}]), 400, "has a seat in 0..2"),
        (_changed_hand(events=[{"kind": "flop", "board": ["2c", "2d"]}]), 400, "a flop has 3 board cards"),
        (_changed_hand(events=[{"kind": "turn", "board": ["2c"]}]), 400, "TURN deals"),
        (_changed_hand(events=[{"kind": "flop", "board": ["2c", "2d", "Td"]}]), 400, "a card twice: Td"),
        (
            _changed_hand(events=[*BELIEF_EXAMPLE["hand"]["events"][:2], {"kind": "raise", "seat": 0, "chips": 0.1}]),
            400,
            "seat 0 puts in 0.1 chips (RAISE) with 2.0 to call",
        ),
        (_changed_hand(events=[{"kind": "shove", "seat": 0}]), 422, "hand.events.0.kind"),
        ([], 422, "body"),
    ],
)
def test_bad_questions_are_answered_with_the_reason(client: Client, question: object, status: int, reason: str) -> None:
    """A client that gets 500 or a guess cannot mend its question."""
    seen, answer = client.post("/belief", question)
    assert seen == status, answer
    assert reason in str(answer["detail"])


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[" * 5000, b""])
def test_bodies_that_are_no_json_are_refused(client: Client, body: bytes) -> None:
    """Neither torn nor nested input may reach the reader or come back as a server error."""
    status, answer = client.ask("POST", "/belief", body)
    assert status in {400, 422}, answer


def test_the_page_and_the_description_load_nothing_from_elsewhere(client: Client) -> None:
    """It runs where there is no internet."""
    status, page = client.ask("GET", "/")
    assert status == 200
    assert "POST /belief" in page
    assert "http" not in page.replace("http-equiv", "")
    status, description = client.ask("GET", "/openapi.json")
    assert {"/healthz", "/combos", "/belief", "/estimate"} == set(description["paths"])
    assert {"400", "413", "422", "429"} <= set(description["paths"]["/belief"]["post"]["responses"])


def test_health_and_the_order_of_combos_are_told(client: Client) -> None:
    """A client in another language must not guess the order."""
    status, health = client.ask("GET", "/healthz")
    assert (status, health["status"], health["device"]) == (200, "ok", "cpu")
    status, answer = client.ask("GET", "/combos")
    assert answer["combos"][cards.combo_index(51, 47)] == "AsKs"
    assert len(answer["combos"]) == 1326


def test_large_and_fast_requests_are_refused(reader: RangeReader) -> None:
    """Memory and processor of a small machine belong to its owner."""
    for client in _running(build_app(reader, max_body_bytes=2000, max_requests_per_s=20)):
        status, answer = client.ask("POST", "/belief", b" " * 2001)
        assert (status, answer["detail"]) == (413, "a request may have at most 2000 bytes")
        statuses = [client.ask("GET", "/healthz")[0] for _ in range(60)]
        assert set(statuses) == {200, 429}


def test_a_body_without_a_length_is_bounded_too() -> None:
    """A chunked body may never end."""
    sent: list[Any] = []

    async def endless() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * 100, "more_body": True}

    async def keep(message: Any) -> None:
        sent.append(message)

    async def unreached(*_: object) -> None:
        raise AssertionError

    limits = RequestLimits(unreached, max_body_bytes=1000)
    asyncio.run(limits({"type": "http", "headers": []}, endless, keep))
    assert sent[0]["status"] == 413


def test_the_rate_recovers_with_time() -> None:
    """A client that was too fast once must be let in again."""
    now = 0.0
    sent: list[int] = []

    async def app(*_: object) -> None:
        sent.append(200)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def keep(message: Any) -> None:
        if "status" in message:
            sent.append(message["status"])

    limits = RequestLimits(app, max_requests_per_s=2, clock=lambda: now)

    async def ask() -> None:
        await limits({"type": "http", "headers": []}, receive, keep)

    for seconds in (0.0, 0.0, 0.0, 0.6, 0.0):
        now += seconds
        asyncio.run(ask())
    assert sent == [200, 200, 429, 200, 429]


def test_a_full_queue_says_so(reader: RangeReader) -> None:
    """Waiting without end is worse than an answer now."""

    async def fill() -> list[object]:
        queue = ReadQueue(reader, max_waiting=2)
        request = ReadRequest(hand=hands.three_way_showdown(), villain=0, perspective=2)
        answers = await asyncio.gather(*(queue.belief(request, 1) for _ in range(3)), return_exceptions=True)
        queue.close()
        return answers

    answers = asyncio.run(fill())
    assert isinstance(answers[2], BusyError)
    assert all(isinstance(answer, np.ndarray) for answer in answers[:2])


def test_impossible_settings_are_refused(reader: RangeReader) -> None:
    """A bound of zero would refuse everything, one request at a time."""
    with pytest.raises(ValueError, match="expected a port"):
        serve(reader, port=0)
    with pytest.raises(ValueError, match="bounds of at least 1"):
        serve(reader, max_requests_per_s=0.0)


def _ohh() -> dict[str, Any]:
    """Return a small heads-up hand as an Open Hand History object."""

    def action(number: int, player: int, name: str, amount: float = 0.0, **more: object) -> dict[str, Any]:
        return {"action_number": number, "player_id": player, "action": name, "amount": amount, "is_allin": False, **more}

    def player(number: int, name: str) -> dict[str, Any]:
        return {"id": number, "seat": number + 1, "name": name, "display": name, "starting_stack": 100.0, "is_sitting_out": False}

    preflop = [
        action(1, 0, "Post SB", 1.0),
        action(2, 1, "Post BB", 2.0),
        action(3, 0, "Dealt Cards", cards=["Ah", "Kd"]),
        action(4, 1, "Dealt Cards", cards=["9c", "9d"]),
        action(5, 0, "Call", 1.0),
        action(6, 1, "Check"),
    ]
    flop = [action(7, 1, "Bet", 4.0), action(8, 0, "Fold")]
    return {
        "spec_version": "1.4.7",
        "site_name": "tests",
        "network_name": "tests",
        "internal_version": "1",
        "tournament": False,
        "game_number": "1",
        "start_date_utc": None,
        "table_name": "t",
        "game_type": "Holdem",
        "bet_limit": {"bet_type": "NL", "bet_cap": 0.0},
        "table_size": 2,
        "currency": "USD",
        "dealer_seat": 1,
        "small_blind_amount": 1.0,
        "big_blind_amount": 2.0,
        "ante_amount": 0.0,
        "players": [player(0, "a"), player(1, "b")],
        "rounds": [
            {"id": 0, "street": "Preflop", "cards": [], "actions": preflop},
            {"id": 1, "street": "Flop", "cards": ["2c", "7d", "Ts"], "actions": flop},
        ],
        "pots": [{"number": 0, "amount": 8.0, "player_wins": [{"player_id": 1, "win_amount": 8.0}]}],
    }


OHH = _ohh()
