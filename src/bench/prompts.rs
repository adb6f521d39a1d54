//! Prompts: from a file, or cut from a built-in text. Pure.

/// What one client says, turn by turn; what the model answers comes between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Ahead of the first turn, in the role `system`.
    pub system: Option<String>,
    pub turns: Vec<String>,
}
