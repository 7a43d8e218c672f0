"""What a comparison tests: rates, costs per request or shares of the profile."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Basis(StrEnum):
    """What a comparison tests.

    `per_request`: the cost of a request, where the numbers of requests are known. `concurrent`: the rate
    per pod of sides that were observed at the same time. `composition`: the share of the profile that each
    function takes, which load does not change; the total is not judged. `equal_load`: the rate per pod of
    sides of different times, because the caller says that their load was equal.
    """

    PER_REQUEST = "per_request"
    CONCURRENT = "concurrent"
    COMPOSITION = "composition"
    EQUAL_LOAD = "equal_load"


@dataclass(frozen=True, slots=True)
class BasisChoice:
    """The basis of a comparison, why it was chosen, and what else is possible."""

    basis: Basis
    reason: str
    available: tuple[Basis, ...]


def choose_basis(
    requested: Basis | None,
    overlap: str,
    *,
    has_requests: bool,
    missing_requests_reason: str = "",
    not_concurrent_reason: str,
) -> BasisChoice:
    """Choose the requested basis if it is possible, else the best that is.

    `requested` is None for the automatic choice. `overlap` is the time in which both sides ran, as text; it
    is empty if they are not concurrent, and `not_concurrent_reason` says why.
    """
    available = [Basis.COMPOSITION]
    if overlap:
        available.insert(0, Basis.CONCURRENT)
    if has_requests:
        available.insert(0, Basis.PER_REQUEST)
    reasons = {
        Basis.PER_REQUEST: "The numbers of requests of both sides are known.",
        Basis.CONCURRENT: f"Both sides ran {overlap}.",
        Basis.EQUAL_LOAD: f"{not_concurrent_reason}, and equal load is assumed, as requested.",
    }
    missing = missing_requests_reason or "request counts are unknown"
    reasons[Basis.COMPOSITION] = (
        "Shares of the profile were requested."
        if len(available) > 1
        else f"{not_concurrent_reason}, and {missing}: load may differ, so functions are compared by their "
        "share of the profile."
    )
    if len(available) == 1:
        available.append(Basis.EQUAL_LOAD)
    basis = requested if requested in available else available[0]
    refused = {
        Basis.PER_REQUEST: f"Cost per request cannot be compared: {missing}. ",
        Basis.CONCURRENT: "The sides are not concurrent. ",
        Basis.EQUAL_LOAD: "Equal load is not needed. ",
    }
    prefix = refused.get(requested, "") if requested and requested is not basis else ""
    return BasisChoice(basis, prefix + reasons[basis], tuple(available))
