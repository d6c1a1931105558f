"""What an attacker saw and what it says: observations, claims, truth, victims side by side."""
