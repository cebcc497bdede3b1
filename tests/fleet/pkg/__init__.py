"""A package that holds a fleet, as a service's own code would."""
