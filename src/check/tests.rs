//! Checks on the facts of a healthy pair, and of that pair with one fault each.
