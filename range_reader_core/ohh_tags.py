"""Oddities of a record that are accepted, as tags that stay with the hand for study.

A tag changes nothing in how a hand is encoded. ``replay.Oddity`` names those of the betting itself.
"""

from enum import StrEnum


class HandTag(StrEnum):
    """What was odd about a record."""

    DEAD_BUTTON = "dead_button"  # the button is on an empty or busted seat
    SMALL_BLIND_OFF_BUTTON = "small_blind_off_button"  # heads-up, and the button does not post the small blind
    NO_SMALL_BLIND = "no_small_blind"
    ZERO_POST = "zero_post"  # a post of nothing, left out of the events
    DOUBLE_BLIND = "double_blind"  # one player posts both blinds
    EXTRA_POST = "extra_post"  # a straddle, dead or extra blind
    RUN_TWICE = "run_twice"  # the first board is kept
    MID_SHOWDOWN = "mid_showdown"  # cards shown before the board was complete
    PARTIAL_SHOW = "partial_show"  # one card of two shown: treated as unknown
    FOLDED_SHOW = "folded_show"  # a folded player shows
    OVERPAID = "overpaid"  # a short all-in wins more than it could match (a simulator's rule)
    NO_POTS = "no_pots"
    ADDED_TO_POT = "added_to_pot"
    ADDED_CHIPS = "added_chips"
    UNKNOWN_ACTION = "unknown_action"
    NO_HOLE_CARDS = "no_hole_cards"
    UNSTATED_RAKE = "unstated_rake"  # pots pay less than they hold and name no rake
    NO_WRAPPER = "no_wrapper"
    TOURNAMENT = "tournament"
