"""Searched augmentation policies (ATS): fifty transformations, two scores, one search."""

from fedpriv.policies.informed import Branch, branches, differentiable
from fedpriv.policies.policy import Draw, Policy, hybrid, random_policies, random_policy
from fedpriv.policies.policy_set import Candidate, PolicySet, named
from fedpriv.policies.transforms import TRANSFORMATIONS

__all__ = [
    "TRANSFORMATIONS",
    "Branch",
    "Candidate",
    "Draw",
    "Policy",
    "PolicySet",
    "branches",
    "differentiable",
    "hybrid",
    "named",
    "random_policies",
    "random_policy",
]
