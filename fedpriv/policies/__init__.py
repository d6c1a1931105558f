"""Searched augmentation policies (ATS): fifty transformations, two scores, one search."""

from fedpriv.policies.informed import Branch, branches, differentiable
from fedpriv.policies.policy import Draw, Policy, hybrid, random_policies, random_policy
from fedpriv.policies.transforms import TRANSFORMATIONS

__all__ = [
    "TRANSFORMATIONS",
    "Branch",
    "Draw",
    "Policy",
    "branches",
    "differentiable",
    "hybrid",
    "random_policies",
    "random_policy",
]
