"""Which steps have pipelines of their own, with their push constants compiled in."""

from __future__ import annotations

from dataclasses import replace

from vkdml.plan.plans import Plan, Step
from vkdml.plan.tuning import Tuning


def with_fixed_parameters(plan: Plan, tuning: Tuning) -> Plan:
    """Return the plan with pipelines of its own for the steps that gain by it; itself if there are none.

    >>> from vkdml.plan.device_classes import DISCRETE, SOFTWARE
    >>> from vkdml.plan.plans import Step
    >>> plan = Plan((Step("slice1_runs_4_bytes", (64,), b"", 1),), (("input", 16), ("output", 16)), ())
    >>> [with_fixed_parameters(plan, each).steps[0].fixed_parameters for each in (DISCRETE, SOFTWARE)]
    [True, False]
    """
    if not tuning.fixed_parameters_after:
        return plan
    nbytes, copied = plan.bytes_of("input"), plan.bytes_of("output")
    if copied:  # a window of a larger array, or an array that is repeated
        nbytes = min(nbytes, copied)

    def gains(step: Step) -> bool:
        for name, least, most in tuning.fixed_parameters_kernels:
            if step.kernel.startswith(name):
                return least <= nbytes <= most
        return nbytes <= tuning.fixed_parameters_to_bytes

    steps = tuple(replace(step, fixed_parameters=True) if gains(step) else step for step in plan.steps)
    return replace(plan, steps=steps) if steps != plan.steps else plan
