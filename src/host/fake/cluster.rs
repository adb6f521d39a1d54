//! What the machines in memory share: their state, the log of effects, and the scripted faults.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::links::{FakeLink, FakeListener};
use super::machine::Machine;
use crate::host::HostError;
use crate::profile::NodeName;

/// What goes wrong at an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with an error of its kind; the next one works.
    Fail,
    /// The node is unreachable from here on, until [`FakeCluster::heal`].
    Disconnect,
    /// The call never completes.
    Hang,
    /// The operator is killed: nothing completes any more, and [`FakeCluster::died`] does.
    Die,
}

/// Whether a fault comes before the effect took place, or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Before,
    After,
}

/// A call on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub node: NodeName,
    /// What was called: `start-container sparkctl-a-0`, `gather`.
    pub name: String,
    /// Whether it is of the kind that changes the node.
    pub changes: bool,
}

/// How the engine of a release behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// The endpoint answers once all ranks run and the weights are loaded.
    Healthy,
    /// All ranks run and nothing is ever said or answered.
    NeverReady,
    /// The ranks meet and wait for each other for ever, at full speed of a core.
    NeverConnected,
    /// Half an hour of computing without a word, then the endpoint answers.
    CompilesLong,
    /// This rank ends with status 1 as soon as it is started.
    CrashAtStart(u32),
    /// The first command ahead of the engine fails in this rank's container.
    BeforeFails(u32),
    /// The endpoint lists and serves a model of another name.
    WrongModel,
    /// The endpoint answers, and wrongly.
    WrongAnswers,
    /// The endpoint answers who shows no key, whatever it was given.
    IgnoresKey,
    /// The endpoint answers rightly, at half the speed.
    Slow,
    /// The endpoint answers rightly, and nothing at all under load.
    NotUnderLoad,
    /// The endpoint answers rightly until some load was on it, and nothing from then on.
    DiesUnderLoad,
}

/// Machines in memory that reach one another. Clones are the same cluster.
#[derive(Clone)]
pub struct FakeCluster(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    died: Notify,
}

/// A script that gives weights away, until its `lines` are closed.
pub(super) struct Giver {
    pub node: NodeName,
    pub secret: String,
    pub admitted: String,
    pub folder: String,
    pub lines: mpsc::WeakSender<String>,
}

/// A script that takes an image, until `done` hears how the stream ended.
pub(super) struct Taker {
    pub node: NodeName,
    pub secret: String,
    pub admitted: String,
    pub lines: mpsc::WeakSender<String>,
    pub done: oneshot::Sender<Result<(), String>>,
}

/// What is in the way of an effect.
enum Begun {
    Well,
    Dead,
    Unreachable,
    Faulty(Fault, Moment),
}

/// A node's lock.
pub(super) struct FakeLock {
    pub holder: String,
    pub token: String,
    /// To the process that holds it.
    pub line: mpsc::WeakSender<String>,
    /// Dropped, the process ends.
    pub _end: oneshot::Sender<()>,
}

/// All that the cluster is.
pub(super) struct State {
    pub machines: BTreeMap<NodeName, Machine>,
    pub reachable: BTreeMap<NodeName, watch::Sender<bool>>,
    pub behaviours: BTreeMap<u32, Behaviour>,
    /// From the start of the last rank to the first answer.
    pub load_time: Duration,
    /// The nodes' locks.
    pub locks: BTreeMap<NodeName, FakeLock>,
    pub givers: BTreeMap<(String, u16), Giver>,
    pub takers: BTreeMap<(String, u16), Taker>,
    /// Links that are not as usual, from an address to another.
    pub links: BTreeMap<(Ipv4Addr, Ipv4Addr), FakeLink>,
    pub listeners: BTreeMap<(Ipv4Addr, u16), FakeListener>,
    pub next_port: u16,
    pub next_id: u64,
    pub violations: Vec<String>,
    effects: Vec<Effect>,
    scripted: Option<(usize, Fault, Moment)>,
    dead: bool,
}

impl FakeCluster {
    /// A cluster of these machines; engines take a second to load.
    pub fn new(machines: impl IntoIterator<Item = (NodeName, Machine)>) -> Self {
        let machines: BTreeMap<_, _> = machines.into_iter().collect();
        let state = State {
            reachable: machines.keys().map(|node| (node.clone(), watch::Sender::new(true))).collect(),
            machines,
            behaviours: BTreeMap::new(),
            load_time: Duration::from_secs(1),
            locks: BTreeMap::new(),
            givers: BTreeMap::new(),
            takers: BTreeMap::new(),
            links: BTreeMap::new(),
            listeners: BTreeMap::new(),
            next_port: 40_000,
            next_id: 1,
            violations: Vec::new(),
            effects: Vec::new(),
            scripted: None,
            dead: false,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), died: Notify::new() }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A test that failed while it held the lock has said so; the others go on.
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.settle();
        state
    }

    /// Looks at a machine, or changes it behind sparkctl's back.
    pub fn machine<T>(&self, node: &str, act: impl FnOnce(&mut Machine) -> T) -> T {
        let mut state = self.state();
        let machine = state.machines.iter_mut().find(|(name, _)| name.as_str() == node);
        act(machine.unwrap_or_else(|| panic!("there is no machine {node}")).1)
    }

    /// The nodes.
    pub fn nodes(&self) -> Vec<NodeName> {
        self.state().machines.keys().cloned().collect()
    }

    /// Says how the engine of a release behaves; unsaid, it is healthy.
    pub fn behave(&self, release: u32, behaviour: Behaviour) {
        self.state().behaviours.insert(release, behaviour);
    }

    /// Puts a fault at the `number`-th effect from now, counted from 1.
    pub fn fault_at(&self, number: usize, fault: Fault, moment: Moment) {
        let mut state = self.state();
        state.scripted = Some((state.effects.len() + number, fault, moment));
    }

    /// All effects so far.
    pub fn effects(&self) -> Vec<Effect> {
        self.state().effects.clone()
    }

    /// Forgets the effects so far.
    pub fn forget_effects(&self) {
        self.state().effects.clear();
    }

    /// Whenever two GPU containers ran on one node at once.
    pub fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    /// Whether a lock is held anywhere.
    pub fn locked(&self) -> bool {
        self.state().locks.values().any(|lock| alive(&lock.line))
    }

    /// Ends every lock as if its holder had given no sign of life for too long.
    pub fn forget_locks(&self) {
        self.state().locks.clear();
    }

    /// Completes when the operator was killed by [`Fault::Die`].
    pub async fn died(&self) {
        while !self.state().dead {
            self.0.died.notified().await;
        }
    }

    /// Whether the fault that was put ahead has not come yet.
    pub fn fault_ahead(&self) -> bool {
        self.state().scripted.is_some()
    }

    /// The machines as they are, to make another cluster of.
    pub fn machines(&self) -> BTreeMap<NodeName, Machine> {
        self.state().machines.clone()
    }

    /// Makes a node unreachable, or reachable again.
    pub fn set_reachable(&self, node: &str, reachable: bool) {
        let state = self.state();
        for (name, sender) in &state.reachable {
            if name.as_str() == node {
                sender.send_replace(reachable);
            }
        }
    }

    /// Every node can be reached, no fault is ahead, and a new operator may work.
    pub fn heal(&self) {
        let mut state = self.state();
        state.scripted = None;
        state.dead = false;
        for sender in state.reachable.values() {
            sender.send_replace(true);
        }
    }

    /// Counts an effect, and does it unless a fault is in the way.
    pub(super) async fn effect<T>(
        &self,
        node: &NodeName,
        name: String,
        changes: bool,
        error: impl FnOnce(&str) -> HostError,
        act: impl FnOnce(&mut State) -> Result<T, HostError>,
    ) -> Result<T, HostError> {
        // What happens on several nodes at once takes turns, so that a fault comes in the middle of all.
        tokio::task::yield_now().await;
        let (fault, moment) = match self.begin(node, &name, changes) {
            Begun::Dead => return std::future::pending().await,
            Begun::Unreachable => return Err(lost(node, &name)),
            Begun::Well => return act(&mut self.state()),
            Begun::Faulty(fault, moment) => (fault, moment),
        };
        if moment == Moment::After {
            // What it answers gets lost.
            let _ = act(&mut self.state());
        }
        match fault {
            Fault::Fail => return Err(error("a scripted fault")),
            Fault::Disconnect => {
                self.state().reachable[node].send_replace(false);
                return Err(lost(node, &name));
            }
            Fault::Hang => {}
            Fault::Die => {
                self.state().dead = true;
                self.0.died.notify_one();
            }
        }
        std::future::pending().await
    }

    fn begin(&self, node: &NodeName, name: &str, changes: bool) -> Begun {
        let mut state = self.state();
        if state.dead {
            return Begun::Dead;
        }
        state.effects.push(Effect { node: node.clone(), name: name.to_owned(), changes });
        if !*state.reachable[node].borrow() {
            return Begun::Unreachable;
        }
        let now = state.effects.len();
        match state.scripted.take_if(|(number, ..)| *number <= now) {
            Some((_, fault, moment)) => Begun::Faulty(fault, moment),
            None => Begun::Well,
        }
    }

    /// Completes when the node cannot be reached any more.
    pub(super) async fn unreachable(&self, node: &NodeName) {
        let mut reachable = self.state().reachable[node].subscribe();
        // The cluster outlives its scripts: it never ends first.
        let _ = reachable.wait_for(|reachable| !reachable).await;
    }
}

impl State {
    pub(super) fn machine(&mut self, node: &NodeName) -> &mut Machine {
        self.machines.get_mut(node).expect("a host's machine is in its cluster")
    }

    /// The machine that has this address.
    pub(super) fn by_address(&self, address: Ipv4Addr) -> Option<(&NodeName, &Machine)> {
        let has = |machine: &Machine| {
            machine.interfaces.iter().flat_map(|i| &i.addresses).any(|a| a.address == address)
        };
        self.machines.iter().find(|(_, machine)| has(machine))
    }

    /// Who holds a node's lock, as the look at a node prints it.
    pub(super) fn holder(&self, node: &NodeName) -> Option<String> {
        let lock = self.locks.get(node).filter(|lock| alive(&lock.line))?;
        Some(format!("{:.12} {}\n", lock.token, lock.holder))
    }

    pub(super) fn port(&mut self) -> u16 {
        self.next_port += 1;
        self.next_port
    }
}

/// Whether somebody still listens at the other end.
pub(super) fn alive(line: &mpsc::WeakSender<String>) -> bool {
    line.upgrade().is_some_and(|line| !line.is_closed())
}

pub(super) fn lost(node: &NodeName, what: &str) -> HostError {
    HostError::Lost { node: node.clone(), what: what.to_owned(), source: "a scripted disconnection".into() }
}
