//! The truth about the fabric: from each node to each other, in both directions and on all rails,
//! where packets go out, whether a connection comes about, the largest packet that arrives in one piece
//! and, where asked for, how fast bytes arrive.
//!
//! `probe` asks the nodes, through hosts alone; `judge` makes findings of its answers and of the facts;
//! `rails` finds further rails in the facts. The probe never depends on a default route: every address
//! is bound. It changes nothing on a node, but that a measured speed is remembered there (`figures`).
//! Left out: RDMA traffic itself, which needs tools that nodes lack; its devices and addresses are judged.
//!
//! ```no_run
//! # use sparkctl::{cluster::facts::NodeFacts, execute::Hosts, fabric, check::Finding, profile::Profile};
//! # async fn example(profile: &Profile, hosts: &Hosts, facts: &[NodeFacts]) -> Vec<Finding> {
//! let fabric: Vec<_> = profile.cluster.nodes.iter().map(|node| node.fabric).collect();
//! let rails = fabric::rails(&fabric, facts);
//! let nodes = profile.cluster.nodes.iter().zip(rails);
//! let members: Vec<_> = nodes
//!     .map(|(node, addresses)| fabric::Member { host: hosts[&node.name].as_ref(), addresses })
//!     .collect();
//! let links = fabric::probe(&members, Some(&|_| {})).await;
//! fabric::judge(&links, facts)
//! # }
//! ```

mod figures;
mod judge;
mod links;
mod measure;
mod probe;
mod rails;
mod store;

pub use judge::judge;
pub use links::{Before, Link, Links, MtuBy, PathMtu, Rate, Reach, Trouble, Way};
pub use measure::{Measured, Tell};
pub use probe::{Member, probe};
pub use rails::rails;
