//! Bytes from node to node over the fabric: weights by several rsyncs, verified by hash; an image by a stream
//! from `docker save` to `docker load`. And a model from a Hub to a node.
//!
//! Between nodes, one script on the giving or taking node listens on that node's fabric address, on a
//! port that the kernel picks, lets in one address and who knows a secret of this one transfer, and
//! ends when its standard input closes: when sparkctl is done, is killed, or loses the connection.

pub(crate) mod ends;
mod fetch;
mod image;
mod weights;

pub use fetch::{Chosen, FetchError, FetchReport, FetchTold, fetch};
pub use image::{ImageJob, ImageReport, copy_image};
pub use weights::{WeightsJob, WeightsReport, copy_weights, remove_files};

/// A Python program as a script for `sh`, of one file or several: standard input stays the program's own.
macro_rules! python {
    ($($file:literal),+) => {
        concat!(
            "command -v python3 >/dev/null || { echo 'python3 is not installed' >&2; exit 1; }\n",
            "exec python3 /dev/fd/3 \"$@\" 3<<'END OF PROGRAM'\n",
            $(include_str!($file), "\n",)+
            "END OF PROGRAM\n"
        )
    };
}
pub(crate) use python;
