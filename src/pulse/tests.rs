use super::StartStage::{self, *};
use super::*;

/// What a rank does for a time: cores, bytes a second read, bytes a second over the fabric, per cent of the GPU.
type Use = (f64, u64, u64, u8);

const IDLE: Use = (0.05, 1000, 5_000, 0);
const SPINS: Use = (1.0, 0, 5_000, 0);
const SPINS_ON_GPU: Use = (1.0, 0, 5_000, 100);
const READS_DISK: Use = (0.1, 2_000_000_000, 0, 0);
const COMPILES: Use = (8.0, 0, 0, 0);
const TALKS: Use = (0.1, 0, 50_000_000, 0);

/// After how many seconds a group counts as hung whose ranks reached these stages in the first second, and have done
/// this since without a word; `None` where it never does, in an hour.
fn hangs(stages: &[Option<StartStage>], uses: &[Use], on_ray: bool, stall: u64) -> Option<u64> {
    let mut pulse = Pulse::new(stages.len(), on_ray, Duration::from_secs(stall));
    for (rank, stage) in stages.iter().enumerate() {
        pulse.said(rank, Duration::from_secs(1));
        if let Some(stage) = stage {
            pulse.reached(rank, *stage);
        }
    }
    let pace = pulse.pace().as_secs();
    (1..3600).find(|second| {
        let at = Duration::from_secs(*second);
        if second % pace == 0 {
            for (rank, (cores, read, fabric, gpu)) in uses.iter().enumerate() {
                #[expect(clippy::cast_precision_loss, reason = "seconds of an hour")]
                let cpu = Some(cores * *second as f64);
                let look =
                    Look { cpu, read: Some(read * second), fabric: Some(fabric * second), gpu: Some(*gpu) };
                pulse.looked(rank, at, look);
            }
        }
        matches!(pulse.judge(at), Verdict::Hung(_))
    })
}

#[test]
fn silence_is_judged_by_stage_and_all_signs() {
    let both = |stage: StartStage| [Some(stage); 2];
    // Where ranks connect to each other neither an idle nor a spinning CPU is a sign of life; the fabric is.
    for uses in [[SPINS; 2], [SPINS_ON_GPU, IDLE]] {
        assert_eq!(hangs(&both(Groups), &uses, false, 600), Some(152), "{uses:?}");
    }
    for stage in [Rendezvous, Groups] {
        assert_eq!(hangs(&both(stage), &[IDLE; 2], false, 600), Some(152), "{stage}");
        assert_eq!(hangs(&both(stage), &[TALKS, IDLE], false, 600), None, "{stage}");
        // The profile's limit is shorter.
        assert_eq!(hangs(&both(stage), &[IDLE; 2], false, 60), Some(62), "{stage}");
    }
    // One rank is still importing: the other waits rightly. On Ray only the head's log tells how far they are.
    assert_eq!(hangs(&[Some(Rendezvous), Some(Config)], &[IDLE, COMPILES], false, 600), None);
    assert_eq!(hangs(&[Some(Rendezvous), None], &[IDLE, READS_DISK], true, 600), None);
    // Loading: the disk, or the CPU where the pages are in memory already.
    for uses in [[READS_DISK, IDLE], [IDLE, COMPILES]] {
        assert_eq!(hangs(&both(LoadingWeights), &uses, false, 600), None, "{uses:?}");
    }
    assert_eq!(hangs(&both(LoadingWeights), &[IDLE; 2], false, 600), Some(602));
    // A first start compiles for half an hour without a line.
    for stage in [Compiling, Tuning, CapturingGraphs, Warming] {
        assert_eq!(hangs(&both(stage), &[COMPILES, IDLE], false, 600), None, "{stage}");
        assert_eq!(hangs(&both(stage), &[IDLE; 2], false, 600), Some(602), "{stage}");
    }
    // The head's script asks Ray again and again while a node is missing, and a worker's command may take its time.
    assert_eq!(hangs(&[Some(Gathering), None], &[SPINS, IDLE], true, 600), Some(602));
    assert_eq!(hangs(&[Some(Gathering), None], &[SPINS, COMPILES], true, 600), None);
    // On Ray the worker's own container says nothing; how far it is stands in the head's log.
    assert_eq!(hangs(&[Some(Groups), None], &[IDLE, SPINS], true, 600), Some(152));
    assert_eq!(hangs(&[Some(Groups), None], &[IDLE, SPINS], false, 600), None);
}

#[test]
fn what_cannot_be_seen_is_no_sign() {
    let mut pulse = Pulse::new(1, false, Duration::from_secs(600));
    let at = Duration::from_secs;
    pulse.looked(0, at(0), Look::default());
    pulse.looked(0, at(590), Look { cpu: Some(1e9), read: Some(1 << 40), ..Look::default() });
    assert_eq!(pulse.judge(at(30)), Verdict::Moving);
    assert_eq!(pulse.judge(at(600)), Verdict::Quiet(at(600)));
    assert_eq!(pulse.judge(at(601)), Verdict::Hung(at(601)));
    // A line is one, an earlier stage is no step back, and a rank that there is not is nothing.
    pulse.said(0, at(601));
    pulse.reached(0, LoadingWeights);
    pulse.reached(0, Groups);
    pulse.said(7, at(602));
    assert_eq!((pulse.stage(), pulse.judge(at(603))), (Some(LoadingWeights), Verdict::Moving));
}

#[test]
fn a_short_limit_is_looked_at_more_often() {
    for (stall, pace) in [(600, 12), (15, 3), (6, 1), (1, 1)] {
        assert_eq!(Pulse::new(1, false, Duration::from_secs(stall)).pace().as_secs(), pace, "{stall}");
    }
}
