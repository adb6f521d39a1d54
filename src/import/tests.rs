//! Small recipes, and what becomes of them.
