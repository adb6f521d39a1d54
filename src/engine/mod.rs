//! What an engine needs and says: all that is known of an engine stands here and only here. Pure.

pub mod milestones;
