//! What can be wrong with a profile beyond types: found all at once, each with the field it is at.

use super::Profile;

/// One thing that is wrong, at a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field, e.g. `cluster.nodes[1].fabric`.
    pub path: String,
    /// What is wrong, in one line, without the place.
    pub message: String,
    /// What to do, where there is something to say beyond the message.
    pub hint: Option<String>,
}

/// Every problem of `profile`, in the order of the fields; none means that it may be planned.
pub fn validate(_profile: &Profile) -> Vec<Problem> {
    Vec::new()
}
