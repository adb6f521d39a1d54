//! The profile's hooks around a run: one that may refuse it, and those that are told of its end.

use super::Operation;
use crate::check::Finding;
use crate::error::in_full;
use crate::event::{Event, RunOutcome};
use crate::hooks::{self, Told};
use crate::plan::Plan;
use crate::profile::Moment;

impl Operation<'_> {
    /// Runs `pre_deploy`; the refusal where it fails.
    pub(super) async fn ask_first(&self, command: &str, plan: &Plan) -> Result<(), RunOutcome> {
        let Some(hook) = self.profile.hooks.at(Moment::PreDeploy) else { return Ok(()) };
        let told = Told {
            release: plan.release,
            endpoint: plan.endpoint.as_deref(),
            ..Told::new(Moment::PreDeploy, command, &self.profile.name)
        };
        let run = tokio::select! {
            run = hooks::run(hook, &told, &self.claim.token) => run,
            () = self.cancel.wish() => {
                return Err(RunOutcome::Interrupted { state: "nothing was changed".to_owned() });
            }
        };
        run.map(drop).map_err(|error| {
            let hint = "see what the hook says; it stands in the profile as `hooks.pre_deploy`";
            let finding =
                Finding::error("hook-pre-deploy", None, in_full(&error), hint).at("hooks.pre_deploy");
            RunOutcome::Refused { findings: vec![finding] }
        })
    }

    /// Runs `post_deploy` or `on_failure`, as the run ended; gives the outcome back as it is.
    pub(super) async fn tell_end(&self, command: &str, outcome: RunOutcome) -> RunOutcome {
        let (moment, word) = match &outcome {
            RunOutcome::Deployed { .. } => (Moment::PostDeploy, "deployed"),
            RunOutcome::Restored { .. } => (Moment::OnFailure, "restored"),
            RunOutcome::Returned { failed: Some(_), .. } => (Moment::OnFailure, "returned"),
            RunOutcome::Down { .. } => (Moment::OnFailure, "down"),
            RunOutcome::Unchanged { .. } => (Moment::OnFailure, "unchanged"),
            RunOutcome::NotServing { .. } => (Moment::OnFailure, "not-serving"),
            RunOutcome::Interrupted { .. } => (Moment::OnFailure, "interrupted"),
            // Nothing was begun.
            _ => return outcome,
        };
        let Some(hook) = self.profile.hooks.at(moment) else { return outcome };
        let mut told = Told { outcome: Some(word), ..Told::new(moment, command, &self.profile.name) };
        match &outcome {
            RunOutcome::Deployed { release, endpoint, outage_seconds } => {
                told.release = Some(*release);
                told.endpoint = Some(endpoint);
                told.outage_seconds = *outage_seconds;
            }
            RunOutcome::Restored { release, .. } => told.release = Some(*release),
            RunOutcome::Down { failed, .. } | RunOutcome::Returned { failed, .. } => told.release = *failed,
            _ => {}
        }
        if let Err(error) = hooks::run(hook, &told, &self.claim.token).await {
            let hint = format!("it changed nothing of the outcome; see `hooks.{moment}` of the profile");
            let finding = Finding::warning("hook-failed", None, in_full(&error), &hint);
            self.events.tell(Event::Warning { finding }).await;
        }
        outcome
    }
}
