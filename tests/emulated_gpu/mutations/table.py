"""Every fault of the product's CUDA side that a test must find."""

from budget_faults import BUDGET, PLANS
from mutation import Mutation
from order_faults import CAPTURES, REUSE, WAITS
from value_faults import COMPARISONS, GENERATORS

MUTATIONS: tuple[Mutation, ...] = (
    *WAITS,
    *REUSE,
    *CAPTURES,
    *COMPARISONS,
    *GENERATORS,
    *BUDGET,
    *PLANS,
)
