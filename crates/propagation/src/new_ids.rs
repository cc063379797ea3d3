//! Permanent ids of the objects that a decision creates.

/// Ids for one decision. The controller draws the first one and the others follow from it. The decision itself draws
/// nothing, so the same snapshot and ids give the same plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIds {
    next: String,
}

impl From<String> for NewIds {
    /// Starts with a UUID that was drawn for this decision.
    fn from(drawn: String) -> Self {
        Self { next: drawn }
    }
}

impl NewIds {
    /// Returns an id that this value has not returned before (up to 2^48 ids of a UUID).
    pub fn allocate(&mut self) -> String {
        let id = self.next.clone();
        self.next = successor(id.clone());
        id
    }
}

/// Increments the hexadecimal digits at the end of the text: the last group of a UUID, whose version and variant
/// remain.
fn successor(text: String) -> String {
    let mut digits: Vec<char> = text.chars().collect();
    for digit in digits.iter_mut().rev() {
        let Some(value) = digit.to_digit(16) else { break };
        *digit = char::from_digit((value + 1) % 16, 16).expect("the remainder of a division by 16 is a digit");
        if value < 15 {
            break;
        }
    }
    digits.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_up_from_the_drawn_one() {
        for (drawn, second) in [
            ("new-1", "new-2"),
            ("new-9", "new-a"),
            ("4f1c2d3e-0001-4aaa-8bbb-0123456789ff", "4f1c2d3e-0001-4aaa-8bbb-012345678a00"),
            ("4f1c2d3e-0001-4aaa-8bbb-ffffffffffff", "4f1c2d3e-0001-4aaa-8bbb-000000000000"),
        ] {
            let mut ids = NewIds::from(drawn.to_owned());
            assert_eq!((ids.allocate().as_str(), ids.allocate().as_str()), (drawn, second));
        }
    }
}
