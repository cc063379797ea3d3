//! Filter `APIEnablement`: rejects clusters that do not serve the template's API. Targets of the present result pass
//! (specification/scheduling.md 5.3).

use ironclad_api::cluster::{ApiEnablement, Cluster};
use ironclad_fleet::because::schedule::Refusal;

use crate::{
    index::{Index, Numbers},
    plugin::{Plugin, Point, Question, Rest, TargetState},
};

pub static API_ENABLEMENT: Plugin = Plugin { name: "APIEnablement", point: Point::Filter { test, narrow } };

fn test(question: &Question<'_>, cluster: &Cluster, state: TargetState) -> Result<(), Refusal> {
    let template = &question.spec.resource;
    let enabled = || cluster.api_enablement(&template.api_version, &template.kind) == ApiEnablement::Enabled;
    if state == TargetState::Target || enabled() { Ok(()) } else { Err(Refusal::ApiNotEnabled) }
}

fn narrow(question: &Question<'_>, index: &Index, all: &mut Numbers) -> Rest {
    let template = &question.spec.resource;
    index.keep_serving(&template.api_version, &template.kind, all);
    Rest::Passes
}
