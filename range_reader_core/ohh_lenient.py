"""A record in any layout but the exact one -> the same structs, slowly and forgivingly.

Writers leave out what the spec requires, quote numbers, spell cards and actions their own way, forget the wrapper. What
has one plain meaning is normalised; what hides or contradicts itself is refused with its code. Repeated keys, NaN and
numbers that overflow are refused wherever they stand.
"""

import json
import math
import re
from typing import Any, Final, Never

from range_reader_core.ohh_actions import CODES, Code, spec_name
from range_reader_core.ohh_cards import card_names
from range_reader_core.ohh_rejects import RejectError, RejectReason
from range_reader_core.ohh_schema import MAX_CHIPS, OhhAction, OhhBetLimit, OhhHand, OhhPlayer, OhhPot, OhhRound, OhhWin
from range_reader_core.ohh_tags import HandTag
from range_reader_core.wording import writable

Json = dict[str, Any]


def decode_lenient(data: bytes) -> tuple[OhhHand, set[str]]:
    """Return the hand of a record and the tags that its form earns.

    Raises:
        RejectError: not UTF-8, not JSON, not a hand, or a field that cannot be read.
    """
    fields, tags = _hand_fields(_load(data))
    _check_flags(fields, tags)
    tournament = bool(fields.get("tournament")) or bool(fields.get("tournament_info"))
    players = _objects(fields, "players")
    rounds = _objects(fields, "rounds")
    pots = _objects(fields, "pots", is_required=False)
    # Ids are opaque; a writer that quotes some of them means the same player.
    read_id = _text if any(isinstance(player.get("id"), str) for player in players) else _whole
    read_rounds = [_round(played_round, index, read_id, tags) for index, played_round in enumerate(rounds)]
    if read_rounds:
        # Some exporters write hole cards beside the player.
        read_rounds[0].actions[:0] = [_dealt(player, read_id) for player in players if player.get("cards")]
    hand = OhhHand(
        spec_version="",
        site_name=_text(fields.get("site_name")) or "unknown",
        network_name=_text(fields.get("network_name")) or "unknown",
        internal_version="",
        tournament=tournament,
        game_number=_text(fields.get("game_number")),
        start_date_utc=None,
        table_name="",
        game_type=_game_type(fields.get("game_type")),
        bet_limit=_bet_limit(fields.get("bet_limit")),
        table_size=0,
        currency="",
        dealer_seat=_whole(fields.get("dealer_seat"), "dealer_seat"),
        small_blind_amount=_chips(fields.get("small_blind_amount"), "small_blind_amount") or 0.0,
        big_blind_amount=_chips(fields.get("big_blind_amount"), "big_blind_amount") or 0.0,
        ante_amount=_chips(fields.get("ante_amount"), "ante_amount") or 0.0,
        players=[_player(player, read_id) for player in players],
        rounds=read_rounds,
        pots=[_pot(pot, read_id) for pot in pots],
    )
    return hand, tags


def _load(data: bytes) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise RejectError(RejectReason.REC_ENCODING, f"expected UTF-8: {error.reason} at byte {error.start}") from error
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise RejectError(RejectReason.REC_JSON, "nested too deeply to read") from error
    except RejectError:
        raise
    except ValueError as error:
        raise RejectError(RejectReason.REC_JSON, f"expected JSON: {str(error)[:100]}") from error


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise RejectError(RejectReason.REC_DUP_KEY, f"an object names {repeated} twice")
    return fields


def _refuse_constant(name: str) -> Never:
    raise RejectError(RejectReason.BAD_NUMBER, f"expected a number, got {name}")


def _hand_fields(root: Any) -> tuple[Json, set[str]]:
    """Return the hand's object, whether or not it is wrapped."""
    if isinstance(root, dict):
        wrapped = root.get("ohh")
        if isinstance(wrapped, dict):
            return wrapped, set()
        if "ohh" not in root and isinstance(root.get("players"), list) and isinstance(root.get("rounds"), list):
            return root, {HandTag.NO_WRAPPER}
        raise RejectError(RejectReason.REC_NOT_OHH, f"expected a hand in an object named ohh, got keys {list(root)[:8]}")
    raise RejectError(RejectReason.REC_NOT_OHH, f"expected an object, got {type(root).__name__}")


def _check_flags(fields: Json, tags: set[str]) -> None:
    flags = fields.get("flags")
    names = {_letters(flag) for flag in flags if isinstance(flag, str)} if isinstance(flags, list) else set()
    if "bombpot" in names:
        raise RejectError(RejectReason.BOMB_POT, "flagged as a bomb pot")
    if "cap" in names:
        raise RejectError(RejectReason.CAPPED, "flagged as capped")
    if "runittwice" in names:
        tags.add(HandTag.RUN_TWICE)


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _game_type(value: Any) -> str:
    name = _text(value)
    return "Holdem" if _letters(name) in {"holdem", "texasholdem"} else name


def _bet_limit(value: Any) -> OhhBetLimit:
    """Read the betting structure; without one nothing says that the hand is no-limit."""
    if not isinstance(value, dict):
        raise RejectError(RejectReason.BET_TYPE, "no bet_limit says that the hand is no-limit")
    return OhhBetLimit(bet_type=_text(value.get("bet_type")).upper(), bet_cap=_chips(value.get("bet_cap"), "bet_cap") or 0.0)


def _player(fields: Json, read_id: Any) -> OhhPlayer:
    stack = _chips(fields.get("starting_stack"), "starting_stack")
    if stack is None:
        raise RejectError(RejectReason.TYPE, f"player {fields.get('id')!r} has no starting_stack")
    return OhhPlayer(
        id=read_id(fields.get("id"), "player id"),
        seat=_whole(fields.get("seat"), "seat"),
        name="",
        display="",
        starting_stack=stack,
        is_sitting_out=fields.get("is_sitting_out") is True,
    )


def _round(fields: Json, index: int, read_id: Any, tags: set[str]) -> OhhRound:
    street = _text(fields.get("street"))
    number = fields.get("id")
    return OhhRound(
        id=number if isinstance(number, int) else index,
        street=_STREETS.get(_letters(street), street),
        cards=card_names(fields.get("cards")),
        actions=[
            action
            for item in _objects(fields, "actions", is_required=False)
            if (action := _action(item, read_id, tags)) is not None
        ],
    )


def _dealt(player: Json, read_id: Any) -> OhhAction:
    cards = card_names(player.get("cards"))
    return OhhAction(
        action_number=0,
        player_id=read_id(player.get("id"), "player id"),
        action="Dealt Cards",
        amount=None,
        is_allin=None,
        cards=cards,
    )


def _action(fields: Json, read_id: Any, tags: set[str]) -> OhhAction | None:
    """Read an action; one that the spec does not know is left out if it moves no chips."""
    text = _text(fields.get("action"))
    name = spec_name(text)
    if name is None:
        if _chips(fields.get("amount"), f"amount of {text}"):
            raise RejectError(RejectReason.UNKNOWN_ACTION, f"{text!r} moves {fields.get('amount')} chips")
        tags.add(HandTag.UNKNOWN_ACTION)
        return None
    player = fields.get("player_id")
    flag = fields.get("is_allin")
    return OhhAction(
        action_number=0,
        player_id=None if player is None else read_id(player, "player_id"),
        action=name,
        # An adjustment is outside the pot and may be negative.
        amount=None if CODES[name] is Code.NOTHING else _chips(fields.get("amount"), f"amount of {name}"),
        is_allin=flag if isinstance(flag, bool) else None,
        cards=card_names(fields.get("cards")),
    )


def _pot(fields: Json, read_id: Any) -> OhhPot:
    amount = _chips(fields.get("amount"), "pot amount")
    if amount is None:
        raise RejectError(RejectReason.TYPE, "a pot has no amount")
    rake, jackpot = _chips(fields.get("rake"), "rake"), _chips(fields.get("jackpot"), "jackpot")
    name = "player_wins" if "player_wins" in fields else "players_wins"  # the spelling before spec 1.2.1
    wins = _objects(fields, name, is_required=False)
    return OhhPot(
        number=0,
        amount=amount,
        player_wins=[
            OhhWin(
                player_id=read_id(win.get("player_id"), "player_id"), win_amount=_chips(win.get("win_amount"), "win_amount") or 0.0
            )
            for win in wins
        ],
        unpaid=None if rake is None and jackpot is None else (rake or 0.0) + (jackpot or 0.0),
    )


def _objects(fields: Json, name: str, *, is_required: bool = True) -> list[Json]:
    value = fields.get(name)
    if value is None and not is_required:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise RejectError(RejectReason.TYPE, f"expected {name} to be a list of objects, got {str(value)[:40]!r}")
    return value


def _text(value: Any, what: str = "a text") -> str:
    if isinstance(value, bool | float | list | dict):
        raise RejectError(RejectReason.TYPE, f"expected {what}, got {str(value)[:40]!r}")
    # A writer that cuts a text in the middle of an emoji leaves half of it, which no UTF-8 can hold.
    return "" if value is None else writable(str(value))


def _whole(value: Any, what: str) -> int:
    number = float(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else value
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not -math.inf < number < math.inf or number != int(number):  # isfinite would overflow
        raise RejectError(RejectReason.TYPE, f"expected {what} to be a whole number, got {str(value)[:40]!r}")
    return int(number)


def _chips(value: Any, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            raise RejectError(RejectReason.TYPE, f"expected {what} to be a number, got {value[:40]!r}")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise RejectError(RejectReason.TYPE, f"expected {what} to be a number, got {str(value)[:40]!r}")
    try:
        chips = float(value)
    except OverflowError:
        chips = math.inf
    if not 0.0 <= chips <= MAX_CHIPS:
        raise RejectError(RejectReason.BAD_NUMBER, f"expected {what} in 0..{MAX_CHIPS:g}, got {chips}")
    return chips


_DECIMAL: Final = re.compile(r"[+-]?\d{1,30}(\.\d{0,30})?", re.ASCII)
_STREETS: Final = {name.lower(): name for name in ("Preflop", "Flop", "Turn", "River", "Showdown")}
