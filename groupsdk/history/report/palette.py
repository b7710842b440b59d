"""A colour-blind safe palette, and the letters that go with the colours."""

from typing import Final

from groupsdk.history.groups.causes import Cause


# Okabe and Ito's palette, and the darker half of Paul Tol's "muted" one for what goes beyond it
SERIES: Final = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999"),
    *("#332288", "#AA4499", "#117733", "#882255", "#44AA99", "#999933", "#661100", "#6699CC"),
)

CAUSES: Final = {
    str(Cause.JOIN): "#0072B2",
    str(Cause.LEAVE): "#56B4E9",
    str(Cause.EXPIRY): "#D55E00",
    str(Cause.CLIENT_RESTART): "#E69F00",
    str(Cause.COORDINATOR_RESTART): "#882255",
    str(Cause.STATIC_REPLACED): "#F0E442",
    str(Cause.SUBSCRIPTION_CHANGE): "#CC79A7",
    str(Cause.TOPIC_GROWTH): "#009E73",
    str(Cause.COOPERATIVE_FOLLOWUP): "#44AA99",
    str(Cause.REJOIN): "#332288",
    str(Cause.CREATED): "#DDDDDD",
    str(Cause.UNKNOWN): "#777777",
}
"""A colour for each cause, the same in every picture."""

LETTERS: Final = {
    str(Cause.JOIN): "J",
    str(Cause.LEAVE): "L",
    str(Cause.EXPIRY): "X",
    str(Cause.CLIENT_RESTART): "R",
    str(Cause.COORDINATOR_RESTART): "C",
    str(Cause.STATIC_REPLACED): "S",
    str(Cause.SUBSCRIPTION_CHANGE): "U",
    str(Cause.TOPIC_GROWTH): "G",
    str(Cause.COOPERATIVE_FOLLOWUP): "F",
    str(Cause.REJOIN): "A",
    str(Cause.CREATED): "0",
    str(Cause.UNKNOWN): "?",
}
"""A letter for each cause, so that no colour has to be told apart."""


def colour_of(names: list[str]) -> dict[str, str]:
    """Assign each name a colour; the same names get the same colours, which repeat after sixteen."""
    return {name: SERIES[place % len(SERIES)] for place, name in enumerate(sorted(set(names)))}
