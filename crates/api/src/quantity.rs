//! Sums of resource lists. On the wire a quantity keeps its spelling; this module computes.

pub use ironclad_quantity::{Amount, Format, QuantityError};

use crate::ResourceList;

/// Adds the amounts of one list to another, resource by resource, and leaves the sums in canonical form.
///
/// # Errors
/// If an amount is not a quantity; `into` then has the sums computed before.
pub fn add_to(into: &mut ResourceList, list: &ResourceList) -> Result<(), QuantityError> {
    for (resource, quantity) in list {
        let amount = Amount::try_from(quantity)?;
        let sum = match into.get(resource) {
            Some(old) => Amount::try_from(old)? + amount,
            None => amount,
        };
        into.insert(resource.clone(), sum.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quantity;

    #[test]
    fn resource_lists_are_added() {
        let list = |pairs: &[(&str, &str)]| -> ResourceList {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), Quantity((*v).to_owned()))).collect()
        };
        let mut sum = list(&[("cpu", "500m")]);
        add_to(&mut sum, &list(&[("cpu", "1.5"), ("memory", "1024Mi")])).unwrap();
        assert_eq!(sum, list(&[("cpu", "2"), ("memory", "1Gi")]));
        assert!(add_to(&mut sum, &list(&[("cpu", "many")])).is_err());
    }
}
