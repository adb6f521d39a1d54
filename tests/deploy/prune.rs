//! What nothing needs any more goes; what anything needs stays.

use sparkctl::host::fake::{FakeContainer, Fault, Moment, SEED_IMAGE, SEED_MODEL, content, seed_content};
use sparkctl::operation::{self, Target};
use sparkctl::prune::store::Removed;
use sparkctl::prune::{self, Kind, Prune, Retention};
use sparkctl::release::ReleaseNumber;

use crate::delivered::{with_file, with_secret};
use crate::desk::{Command, Desk, changed};

const KEEP_ONE: Retention = Retention { releases: 1, weights: false };

async fn planned(desk: &Desk, retention: Retention) -> Result<Prune, String> {
    let hosts = desk.hosts();
    let facts = operation::look(&desk.profile, &hosts).await.map_err(|errors| format!("{errors:?}"))?;
    let inventories =
        prune::store::look(&desk.profile, &hosts, &facts).await.map_err(|errors| format!("{errors:?}"))?;
    prune::plan(&desk.profile, retention, &facts, &inventories).map_err(|finding| finding.to_string())
}

/// Removes what is not needed; none where the operator was killed or a node could not be asked.
async fn pruned(desk: &Desk, retention: Retention) -> Option<Vec<Removed>> {
    let hosts = desk.hosts();
    let work = async {
        let plan = planned(desk, retention).await.ok()?;
        Some(prune::store::remove(&plan, &hosts).await)
    };
    tokio::select! {
        biased;
        () = desk.cluster.died() => None,
        removed = work => removed,
    }
}

/// What goes from a node, by kind and name.
fn goes(prune: &Prune, node: &str) -> Vec<(Kind, String)> {
    let of = prune.nodes.iter().find(|(name, _)| name.as_str() == node);
    of.map(|(_, items)| items.iter().map(|item| (item.kind, item.name.join(" "))).collect())
        .unwrap_or_default()
}

/// Three releases: the first of another image, and with a file and a secret of its own; the third runs.
async fn three_releases() -> Desk {
    let desk = with_secret(&with_file(&Desk::seed(), "one"), "HF_TOKEN", "value-one");
    desk.deployed().await;
    desk.cluster.machine("spark1", |m| m.put_image(&content("newer"), SEED_IMAGE, "arm64", 19_000_000_000));
    let desk = with_secret(&with_file(&desk, "two"), "HF_TOKEN", "value-two");
    desk.deployed().await;
    let desk = desk.with(changed(&desk.profile));
    desk.deployed().await;
    desk
}

fn names(desk: &Desk, node: &str) -> Vec<String> {
    desk.cluster.machine(node, |m| m.images.iter().flat_map(|image| image.references.clone()).collect())
}

#[tokio::test(start_paused = true)]
async fn what_old_releases_needed_goes_and_the_rest_can_come_back() {
    let desk = three_releases().await;
    let all = planned(&desk, Retention { releases: 5, weights: true }).await.unwrap();
    assert!(all.is_empty(), "{all:?}");

    let plan = planned(&desk, Retention { releases: 2, weights: false }).await.unwrap();
    assert_eq!(plan.kept, [ReleaseNumber(3), ReleaseNumber(2)]);
    let kinds: Vec<_> = goes(&plan, "spark2").into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [Kind::Image, Kind::Files, Kind::Secrets, Kind::Release]);
    assert!(goes(&plan, "spark2").contains(&(Kind::Image, seed_content().kept_as())));
    let bytes = |node: &str| plan.nodes.iter().find(|(name, _)| name.as_str() == node).unwrap().1[0].bytes;
    assert_eq!(bytes("spark2"), 18_400_000_000, "the kept name was its last");

    let shown = prune::text(&desk.profile.name, &plan);
    assert!(shown.contains("releases 3, 2 are kept"), "{shown}");
    assert!(shown.contains("spark2   18 GB") && shown.contains("release   1, records and logs"), "{shown}");

    let removed = pruned(&desk, Retention { releases: 2, weights: false }).await.unwrap();
    assert!(removed.iter().all(|removed| removed.why.is_none()), "{removed:?}");
    assert_eq!(names(&desk, "spark2"), [content("newer").kept_as()]);
    assert!(planned(&desk, Retention { releases: 2, weights: false }).await.unwrap().is_empty());
    let run = desk.run(Command::Rollback(Target::Before)).await;
    desk.hold_to_account(&run);
    assert!(desk.serves(ReleaseNumber(2)), "{:?}", run.outcome);
}

#[tokio::test(start_paused = true)]
async fn what_anybody_else_needs_stays() {
    let kept = seed_content().kept_as();
    let image = |plan: &Prune| goes(plan, "spark2").contains(&(Kind::Image, kept.clone()));

    let desk = three_releases().await;
    desk.cluster.machine("spark2", |m| {
        m.containers.insert("comfy".to_owned(), FakeContainer::foreign("comfy", &kept, false));
    });
    assert!(!image(&planned(&desk, KEEP_ONE).await.unwrap()), "a foreign container uses it");

    let desk = three_releases().await;
    let others = |change: &dyn Fn(&str) -> String| {
        desk.cluster.machine("spark2", |m| {
            let mine = ("qwen35-122b".to_owned(), "0001".to_owned());
            let mut theirs = m.releases[&mine].clone();
            let text = String::from_utf8(theirs.record.unwrap()).unwrap();
            theirs.record = Some(change(&text).into_bytes());
            m.releases.insert(("other".to_owned(), "0001".to_owned()), theirs);
        });
    };
    others(&str::to_owned);
    assert!(!image(&planned(&desk, KEEP_ONE).await.unwrap()), "another deployment can go back to it");
    others(&|text| text[..100].to_owned());
    let why = planned(&desk, KEEP_ONE).await.unwrap_err();
    assert!(why.contains("cannot be read (other: 0001)"), "{why}");

    // Another image, with a name of somebody else's, is none of it whatever runs.
    let desk = three_releases().await;
    desk.cluster.machine("spark2", |m| m.put_image(&content("theirs"), "theirs:1", "arm64", 5));
    desk.cluster.machine("spark2", |m| m.put_image(&seed_content(), "mine/too:1", "arm64", 5));
    pruned(&desk, KEEP_ONE).await.unwrap();
    assert_eq!(names(&desk, "spark2"), ["mine/too:1", &content("newer").kept_as(), "theirs:1"]);
}

#[tokio::test(start_paused = true)]
async fn weights_go_where_that_is_asked_and_nothing_needs_them() {
    let desk = three_releases().await;
    let mut profile = changed(&desk.profile);
    profile.model.path = "/home/aurora/models/other".to_owned();
    let desk = desk.with(profile);
    let put_other = |m: &mut sparkctl::host::fake::Machine| {
        let model = m.folders[SEED_MODEL].clone();
        m.folders.insert("/home/aurora/models/other".to_owned(), model);
    };
    desk.cluster.machine("spark1", put_other);
    desk.deployed().await;
    let with = Retention { releases: 1, weights: true };
    let weights = (Kind::Weights, SEED_MODEL.to_owned());
    assert!(!goes(&planned(&desk, KEEP_ONE).await.unwrap(), "spark1").contains(&weights), "not asked for");
    assert!(goes(&planned(&desk, with).await.unwrap(), "spark1").contains(&weights));
    let both = Retention { releases: 2, weights: true };
    assert!(!goes(&planned(&desk, both).await.unwrap(), "spark1").contains(&weights), "release 3 needs them");
    desk.cluster.machine("spark1", |m| {
        let mut user = FakeContainer::foreign("reader", "theirs:1", false);
        user.container.mounts.insert("/data".to_owned(), "/home/aurora/models".to_owned());
        m.containers.insert("reader".to_owned(), user);
    });
    assert!(!goes(&planned(&desk, with).await.unwrap(), "spark1").contains(&weights), "a container has them");
    assert!(goes(&planned(&desk, with).await.unwrap(), "spark2").contains(&weights));
}

#[tokio::test(start_paused = true)]
async fn what_cut_copies_left_goes_and_a_volume_of_nothing() {
    let desk = three_releases().await;
    desk.cluster.machine("spark2", |m| m.folders.get_mut(SEED_MODEL).unwrap().partial = 7);
    desk.cluster.machine("spark2", |m| m.volumes.insert("sparkctl-qwen35-122b-cache".to_owned()));
    let plan = planned(&desk, Retention { releases: 5, weights: false }).await.unwrap();
    assert_eq!(goes(&plan, "spark2"), [(Kind::Partial, format!("{SEED_MODEL}/.sparkctl/incoming"))]);
    // Nothing of the deployment is on the node any more.
    desk.run(Command::Stop).await;
    desk.cluster.machine("spark2", |m| m.releases.clear());
    let plan = planned(&desk, KEEP_ONE).await.unwrap();
    assert!(goes(&plan, "spark2").contains(&(Kind::Volume, "sparkctl-qwen35-122b-cache".to_owned())));
}

/// Wherever it is cut, the next one removes the rest, and what is kept can come back.
#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_prune() {
    let desk = three_releases().await;
    let whole = desk.copy();
    pruned(&whole, KEEP_ONE).await.unwrap();
    let left = |desk: &Desk, node: &str| {
        desk.cluster.machine(node, |m| {
            let releases: Vec<_> = m.releases.keys().cloned().collect();
            let kept: Vec<_> = m.kept.keys().cloned().collect();
            (releases, kept, m.images.clone())
        })
    };
    for fault in [Fault::Fail, Fault::Disconnect, Fault::Die] {
        for moment in [Moment::Before, Moment::After] {
            for number in 1.. {
                let desk = desk.copy();
                desk.cluster.fault_at(number, fault, moment);
                let removed = pruned(&desk, KEEP_ONE).await;
                if desk.cluster.fault_ahead() {
                    assert!(number > 15, "only {number} effects");
                    break;
                }
                let at = format!("{fault:?} {moment:?} {:?}", desk.cluster.effects().get(number - 1));
                let told = removed.is_none_or(|removed| removed.iter().any(|removed| removed.why.is_some()));
                assert!(told, "{at}: it was told as well done");
                desk.cluster.heal();
                pruned(&desk, KEEP_ONE).await.unwrap();
                for node in ["spark1", "spark2"] {
                    assert_eq!(left(&desk, node), left(&whole, node), "{at}");
                }
                assert!(desk.serves(ReleaseNumber(3)), "{at}");
            }
        }
    }
}
