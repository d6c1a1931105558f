"""Can an attack work here, and if not, which condition fails?"""

from fedpriv.attacks.preflight.examination import Preflight, preflight, preflight_all
from fedpriv.attacks.preflight.finding import Finding, Severity

__all__ = ["Finding", "Preflight", "Severity", "preflight", "preflight_all"]
