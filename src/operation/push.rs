//! `push`: the image to all nodes, alone. What runs is not touched.

use super::Operation;
use crate::cluster::facts::NodeFacts;
use crate::delivery::Delivery;
use crate::event::RunOutcome;
use crate::execute::StepError;
use crate::plan::built;
use crate::plan::planner::{self, Refused};
use crate::profile::Profile;

impl Operation<'_> {
    /// Brings the profile's image to every node that lacks it. The outcome is told as the last event, too.
    pub async fn push(&self, delivery: &Delivery) -> RunOutcome {
        let outcome = match self.begin("push", &Delivery::default()).await {
            Err(outcome) => outcome,
            Ok((lock, facts)) => match planner::push(&named(self.profile, delivery, &facts), &facts) {
                Err(Refused(findings)) => RunOutcome::Refused { findings },
                Ok((plan, image)) => {
                    let nodes = plan.nodes.clone();
                    self.tell_found("push", &plan, &facts).await;
                    let outcome = match self.run(&plan, &self.cancel.or_lost(&lock)).await {
                        Ok(done) => RunOutcome::Pushed { image, nodes, bytes: done.moved },
                        Err(error) => {
                            self.tell_failure(&error, None).await;
                            let state = "what runs was not touched; the next push goes on".to_owned();
                            match error.source {
                                StepError::Cancelled => RunOutcome::Interrupted { state },
                                _ => RunOutcome::NotPushed { state },
                            }
                        }
                    };
                    self.ended(outcome).await
                }
            },
        };
        self.finish(outcome).await
    }
}

/// The profile with the name that its image has on the nodes, also where it is one that a deploy builds.
fn named(profile: &Profile, delivery: &Delivery, facts: &[NodeFacts]) -> Profile {
    let built = facts.first().and_then(|head| built::with_tag(profile, delivery, head));
    built.unwrap_or_else(|| profile.clone())
}
