"""Studies as data: cells out of axes, run in an order that is fair, kept so that they can be repeated."""
