//! Amounts of a status.

use ironclad_quantity::{Amount, Format};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Renders thousandths: memory in binary units, everything else in decimal ones.
#[must_use]
pub fn quantity(milli: i64, resource: Option<&str>) -> Quantity {
    let format = if resource == Some("memory") { Format::BinarySi } else { Format::DecimalSi };
    Quantity(Amount::from_milli(milli).with_format(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_the_units_of_their_resource() {
        for (milli, resource, want) in [
            (250, Some("cpu"), "250m"),
            (2_000, Some("cpu"), "2"),
            (1_073_741_824_000, Some("memory"), "1Gi"),
            (20_333, None, "20333m"),
            (10_000, None, "10"),
        ] {
            assert_eq!(quantity(milli, resource).0, want);
        }
    }
}
