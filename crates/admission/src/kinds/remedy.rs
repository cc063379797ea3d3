//! Remedy: warnings only (specification/remedy.md 4). Crate `failover` has them, beside the code that uses the fields.

use ironclad_api::remedy::Remedy;
use ironclad_failover::remedy;
use serde_json::Value;

use crate::{
    Denial,
    field::Findings,
    request::{Cx, decode},
};

pub(crate) fn validate(object: &Value, _: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let remedy: Remedy = decode(object)?;
    remedy::warnings(&remedy).into_iter().for_each(|warning| out.warn(warning));
    Ok(())
}
