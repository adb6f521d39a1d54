//! One operation at a time on a node, whoever asks for it, and what runs in hooks is part of it.

use std::time::Duration;

use sparkctl::event::{Event, Events, RunOutcome};
use sparkctl::execute::Cancel;
use sparkctl::host::fake::{Fault, Moment};
use sparkctl::profile::Profile;
use sparkctl::release::ReleaseNumber;
use sparkctl::release::lock::{self, Claim};

use crate::FIRST;
use crate::desk::{self, Command, Desk, changed};

/// Another deployment on the same nodes.
fn other(profile: &Profile) -> Profile {
    let mut other = profile.clone();
    other.name = "other".parse().unwrap();
    other
}

#[tokio::test(start_paused = true)]
async fn two_deployments_do_not_switch_the_same_nodes_at_once() {
    let desk = Desk::seed();
    let second = desk.with(other(&desk.profile));
    let (one, two) = tokio::join!(desk.run(Command::Deploy), second.run(Command::Deploy));
    let locked =
        [&one, &two].iter().filter(|run| matches!(run.outcome, Some(RunOutcome::Locked { .. }))).count();
    assert_eq!(locked, 1, "{:?} {:?}", one.outcome, two.outcome);
    assert!(desk.cluster.violations().is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_on_when_the_other_is_done() {
    let desk = Desk::seed();
    let claim = Claim { wait: Duration::from_secs(3600), ..Claim::new() };
    let (one, two) = tokio::join!(desk.run(Command::Deploy), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        desk.with(changed(&desk.profile)).run_claiming(Command::Deploy, &claim).await
    });
    assert!(matches!(one.outcome, Some(RunOutcome::Deployed { release: FIRST, .. })), "{:?}", one.outcome);
    let Some(RunOutcome::Deployed { release, .. }) = two.outcome else { panic!("{:?}", two.outcome) };
    assert_eq!(release, ReleaseNumber(2), "numbers are given out under the lock");
    let waited = |event: &&Event| matches!(event, Event::Waiting { holder } if holder.contains("`deploy`"));
    assert_eq!(two.events.iter().filter(waited).count(), 1, "told once");
    desk.with(changed(&desk.profile)).hold_to_account(&two);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_at_its_limit_and_by_a_wish() {
    let desk = Desk::seed();
    let (events, _told) = Events::channel();
    let head = &desk.profile.head().name;
    let who = "bob@desk, `deploy` of `other`, since then";
    let hosts = desk.hosts();
    let lock = lock::acquire(&hosts, head, &desk.profile.name, who, &Claim::new(), &events).await.unwrap();
    let claim = Claim { wait: Duration::from_secs(10), ..Claim::new() };
    let began = tokio::time::Instant::now();
    let late = desk.run_claiming(Command::Deploy, &claim).await;
    let Some(RunOutcome::Locked { holder }) = &late.outcome else { panic!("{:?}", late.outcome) };
    assert_eq!(holder, who);
    assert!((10..15).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());

    let (switch, cancel) = Cancel::new();
    let claim = Claim { wait: Duration::from_secs(3600), ..Claim::new() };
    let wish = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        switch.send(true).unwrap();
        std::future::pending::<()>().await;
    };
    let operator = desk::operator();
    let run = tokio::select! {
        run = desk.run_with(Command::Deploy, &operator, &cancel, &claim) => run,
        () = wish => unreachable!(),
    };
    assert!(matches!(run.outcome, Some(RunOutcome::Interrupted { .. })), "{:?}", run.outcome);
    drop(lock);
    desk.deployed().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_calls_finds_the_lock_held_for_it() {
    let desk = Desk::seed();
    let claim = Claim::new();
    let (outer, inner) = tokio::join!(desk.run_claiming(Command::Deploy, &claim), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        desk.with(other(&desk.profile)).run_claiming(Command::Stop, &claim).await
    });
    assert!(matches!(inner.outcome, Some(RunOutcome::NothingToDo { .. })), "{:?}", inner.outcome);
    assert!(matches!(outer.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", outer.outcome);
}

/// The operator's machine slept for longer than the lock lives, and wakes up in the middle.
async fn woken_at(desk: &Desk, effect: &'static str, meanwhile: Option<Command>) -> Option<RunOutcome> {
    desk.cluster.fault_at_first(effect, Fault::Hang, Moment::Before);
    let (_switch, cancel) = Cancel::new();
    let asleep = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        desk.cluster.forget_locks();
        if let Some(command) = meanwhile {
            // Somebody else is at work now, for a long time.
            let next = desk.with(changed(&desk.profile));
            next.run(command).await;
        }
        std::future::pending::<()>().await;
    };
    let run = tokio::select! {
        run = desk.run_until(Command::Deploy, &cancel) => run,
        () = asleep => unreachable!(),
    };
    desk.hold_to_account(&run);
    run.outcome
}

#[tokio::test(start_paused = true)]
async fn who_wakes_up_without_the_lock_stops() {
    let outcome = Box::pin(woken_at(&Desk::seed(), "pull-weights: whole", None)).await;
    assert!(matches!(outcome, Some(RunOutcome::Unchanged { serving: None })), "{outcome:?}");

    let desk = Desk::seed();
    desk.deployed().await;
    let desk = desk.with(changed(&desk.profile));
    let outcome = Box::pin(woken_at(&desk, "create-container", None)).await;
    assert!(matches!(outcome, Some(RunOutcome::Restored { release: FIRST, .. })), "{outcome:?}");
    assert!(desk.serves(FIRST));
}
