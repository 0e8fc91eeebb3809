"""Arrays: what a user's object means as one, arrays on devices, and the operators on these."""
