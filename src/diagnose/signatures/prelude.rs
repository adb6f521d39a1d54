//! What sparkctl's own script says that runs ahead of the engine.

use super::Class::Container;
use super::Severity::Root;
use super::Signature;

pub const SIGNATURES: &[Signature] = &[
    Signature {
        id: super::BEFORE_FAILED,
        severity: Root(Container),
        pattern: r"sparkctl: (engine\.before\[\d+\]) (failed with exit status \d+|was killed by signal \d+|cannot be run \([^)]*\)): (.+)",
        cause: "`{1}` {2}: {3}",
        hint: "mend that command, or take it out of `engine.before`; it runs in the container of every rank",
        reference: "own",
        examples: &[
            "sparkctl: engine.before[1] failed with exit status 3: bash /sparkctl/patch.sh",
            "sparkctl: engine.before[0] was killed by signal 9: pip install flash-attn",
            "sparkctl: engine.before[0] cannot be run (No such file or directory): /sparkctl/patch.sh",
        ],
    },
    Signature {
        id: "SECRETS-UNREADABLE",
        severity: Root(Container),
        pattern: r"sparkctl: the secrets cannot be read by user (\d+)",
        cause: "the container's user {1} may not read the secrets, which only root and their owner on the node may",
        hint: "name an image that runs as root in `image.reference`",
        reference: "own",
        examples: &["sparkctl: the secrets cannot be read by user 1000: Permission denied"],
    },
];
