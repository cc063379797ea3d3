//! Loans of headroom: a member that stands at its share of the maximum gets some of what others do not use
//! (specification/autoscaling.md 6.9, row 12.1).

use std::collections::BTreeMap;

use ironclad_fleet::ClusterName;
use jiff::SignedDuration;

use super::split::Bounds;

/// Time for which a member has to be limited.
pub const LIMITED_FOR: SignedDuration = SignedDuration::from_secs(30);
/// Interval between loans.
pub const LEND_EVERY: SignedDuration = SignedDuration::from_secs(60);
/// Time after which a borrower that needs no more than its own share gives back what it borrowed.
pub const RETURN_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// One member as lending sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Minimum, and the share of the maximum without loans.
    pub bounds: Bounds,
    /// Maximum that it has now, with loans.
    pub max: i32,
    /// Replicas that it wants.
    pub desired: i32,
    /// Weight in the division.
    pub weight: u32,
    /// True if it has been limited by its maximum for [`LIMITED_FOR`].
    pub limited: bool,
    /// True if it has needed no more than its own share for [`RETURN_AFTER`].
    pub idle: bool,
}

impl Account {
    fn loan(&self) -> i32 {
        self.max.saturating_sub(self.bounds.max)
    }

    /// Replicas below its maximum that it does not use.
    fn headroom(&self) -> i32 {
        self.max.saturating_sub(self.desired.max(self.bounds.min)).max(0)
    }
}

/// Keeps loans after a change of the division, as far as the new shares allow: the maxima that go in are the new shares
/// with the loans of before. Those that come out have the sum of the shares.
#[must_use]
pub fn carry(mut accounts: BTreeMap<ClusterName, Account>) -> BTreeMap<ClusterName, i32> {
    for account in accounts.values_mut() {
        // A lender keeps what it uses, and a minimum is never above a maximum.
        let least = account.desired.max(account.bounds.min).min(account.bounds.max);
        account.max = account.max.max(least);
    }
    let sum_of = |positive: bool, accounts: &BTreeMap<ClusterName, Account>| -> i64 {
        let loans = accounts.values().map(|account| i64::from(account.loan()));
        loans.filter(|loan| (*loan > 0) == positive).map(i64::abs).sum()
    };
    let (borrowed, lent) = (sum_of(true, &accounts), sum_of(false, &accounts));
    let too_much = (borrowed - lent).unsigned_abs();
    let side = borrowed > lent;
    let parts: BTreeMap<ClusterName, u64> = accounts
        .iter()
        .filter(|(_, account)| account.loan() != 0 && (account.loan() > 0) == side)
        .map(|(cluster, account)| (cluster.clone(), u64::from(account.loan().unsigned_abs())))
        .collect();
    for (cluster, part) in proportional(too_much, &parts) {
        if let Some(account) = accounts.get_mut(&cluster) {
            account.max = if side { account.max.saturating_sub(part) } else { account.max.saturating_add(part) };
        }
    }
    accounts.into_iter().map(|(cluster, account)| (cluster, account.max)).collect()
}

/// Returns loans that are not used any more. `None` if there are none.
#[must_use]
pub fn give_back(accounts: &BTreeMap<ClusterName, Account>) -> Option<BTreeMap<ClusterName, i32>> {
    if !accounts.values().any(|account| account.idle && account.loan() > 0) {
        return None;
    }
    let mut after = accounts.clone();
    let mut returned = 0_u64;
    for account in after.values_mut().filter(|account| account.idle && account.loan() > 0) {
        returned += u64::from(account.loan().unsigned_abs());
        account.max = account.bounds.max;
    }
    let lent: BTreeMap<ClusterName, u64> = accounts
        .iter()
        .filter(|(_, account)| account.loan() < 0)
        .map(|(cluster, account)| (cluster.clone(), u64::from(account.loan().unsigned_abs())))
        .collect();
    for (cluster, part) in proportional(returned, &lent) {
        if let Some(account) = after.get_mut(&cluster) {
            account.max = account.max.saturating_add(part);
        }
    }
    Some(after.into_iter().map(|(cluster, account)| (cluster, account.max)).collect())
}

/// Loan to the limited members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loan {
    /// Replicas that change hands.
    pub replicas: i32,
    /// Maxima after it, of all members.
    pub maxima: BTreeMap<ClusterName, i32>,
    /// Those that get some.
    pub to: Vec<ClusterName>,
}

/// Lends half of the headroom, rounded up: taken in proportion to headroom, given in proportion to weights. `None` if
/// no member is limited, or none has headroom. The sum of the maxima stays.
#[must_use]
pub fn lend(accounts: &BTreeMap<ClusterName, Account>) -> Option<Loan> {
    let limited = accounts.iter().filter(|(_, account)| account.limited);
    let takers: BTreeMap<ClusterName, u64> =
        limited.map(|(cluster, account)| (cluster.clone(), u64::from(account.weight.max(1)))).collect();
    let headrooms: BTreeMap<ClusterName, u64> = accounts
        .iter()
        .filter(|(_, account)| !account.limited)
        .map(|(cluster, account)| (cluster.clone(), u64::from(account.headroom().unsigned_abs())))
        .collect();
    let total: u64 = headrooms.values().sum();
    if takers.is_empty() || total == 0 {
        return None;
    }
    let moved = total.div_ceil(2);
    let mut maxima: BTreeMap<ClusterName, i32> =
        accounts.iter().map(|(cluster, account)| (cluster.clone(), account.max)).collect();
    for (cluster, part) in proportional(moved, &headrooms) {
        maxima.entry(cluster).and_modify(|max| *max = max.saturating_sub(part));
    }
    for (cluster, part) in proportional(moved, &takers) {
        maxima.entry(cluster).and_modify(|max| *max = max.saturating_add(part));
    }
    Some(Loan { replicas: i32::try_from(moved).unwrap_or(i32::MAX), maxima, to: takers.into_keys().collect() })
}

/// Divides an amount in proportion to parts; the largest remainders get one more. Nobody gets more than its part as
/// long as the amount does not exceed their sum.
pub(super) fn proportional(amount: u64, parts: &BTreeMap<ClusterName, u64>) -> Vec<(ClusterName, i32)> {
    let sum: u128 = parts.values().map(|part| u128::from(*part)).sum();
    if sum == 0 {
        return Vec::new();
    }
    let exact = |part: u64| u128::from(amount) * u128::from(part);
    let mut shares: Vec<(&ClusterName, u128, u128)> =
        parts.iter().map(|(cluster, part)| (cluster, exact(*part) / sum, exact(*part) % sum)).collect();
    let given: u128 = shares.iter().map(|(_, share, _)| share).sum();
    let mut rest = u128::from(amount) - given;
    shares.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(b.0)));
    for share in &mut shares {
        let more = rest.min(1);
        share.1 += more;
        rest -= more;
    }
    shares.into_iter().map(|(cluster, share, _)| (cluster.clone(), i32::try_from(share).unwrap_or(i32::MAX))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account(weight: u32, (min, share): (i32, i32), max: i32, desired: i32) -> Account {
        Account { bounds: Bounds { min, max: share }, max, desired, weight, limited: desired >= max, idle: false }
    }

    fn accounts(all: &[(&str, Account)]) -> BTreeMap<ClusterName, Account> {
        all.iter().map(|(cluster, account)| (ClusterName::from(*cluster), *account)).collect()
    }

    fn text(maxima: &BTreeMap<ClusterName, i32>) -> String {
        maxima.iter().map(|(cluster, max)| format!("{cluster}{max}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn loans() {
        for (name, all, want) in [
            (
                "the worked example",
                &[("A", account(10, (1, 10), 10, 10)), ("B", account(90, (2, 90), 90, 30))][..],
                Some("30: A40 B60"),
            ),
            (
                "a minute later",
                &[("A", account(10, (1, 10), 40, 40)), ("B", account(90, (2, 90), 60, 30))],
                Some("15: A55 B45"),
            ),
            ("nobody is limited", &[("A", account(1, (1, 10), 10, 9)), ("B", account(1, (1, 10), 10, 3))], None),
            ("all are", &[("A", account(1, (1, 10), 10, 10)), ("B", account(1, (1, 10), 10, 10))], None),
            (
                "the last replica",
                &[("A", account(1, (1, 10), 10, 10)), ("B", account(1, (1, 10), 10, 9))],
                Some("1: A11 B9"),
            ),
            (
                "a minimum is not lent",
                &[("A", account(1, (1, 10), 10, 10)), ("B", account(1, (8, 10), 10, 1))],
                Some("1: A11 B9"),
            ),
            (
                "two lend to two by weight",
                &[
                    ("A", account(1, (1, 10), 10, 10)),
                    ("B", account(3, (1, 30), 30, 30)),
                    ("C", account(1, (1, 20), 20, 0)),
                    ("D", account(1, (1, 6), 6, 1)),
                ],
                Some("12: A13 B39 C10 D4"),
            ),
        ] {
            let lent = lend(&accounts(all)).map(|loan| format!("{}: {}", loan.replicas, text(&loan.maxima)));
            assert_eq!(lent.as_deref(), want, "{name}");
        }
    }

    #[test]
    fn loans_are_given_back_by_who_needs_them_no_more() {
        let idle = |mut account: Account| {
            account.idle = true;
            account
        };
        let (lender, other) = (account(90, (2, 90), 45, 30), account(1, (1, 10), 20, 15));
        for (name, all, want) in [
            ("the borrower is idle", vec![("A", idle(account(10, (1, 10), 55, 5))), ("B", lender)], Some("A10 B90")),
            ("it is not", vec![("A", account(10, (1, 10), 55, 40)), ("B", lender)], None),
            ("without a loan", vec![("A", idle(account(10, (1, 10), 10, 5)))], None),
            (
                "one of two borrowers",
                vec![("A", idle(account(10, (1, 10), 45, 5))), ("B", lender), ("C", other)],
                Some("A10 B80 C20"),
            ),
        ] {
            assert_eq!(give_back(&accounts(&all)).as_ref().map(text).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn loans_survive_a_new_division_as_far_as_it_allows() {
        for (name, all, want) in [
            (
                "the same division",
                vec![("A", account(10, (1, 10), 40, 40)), ("B", account(90, (2, 90), 60, 30))],
                "A40 B60",
            ),
            (
                "the lender's share shrank to what it uses",
                vec![("A", account(10, (1, 10), 40, 40)), ("B", account(90, (2, 30), 0, 30))],
                "A10 B30",
            ),
            ("the lender is gone", vec![("A", account(10, (1, 50), 70, 70))], "A50"),
            ("the borrower is gone", vec![("B", account(90, (2, 100), 60, 30))], "B100"),
        ] {
            assert_eq!(text(&carry(accounts(&all))), want, "{name}");
        }
    }

    fn any_account() -> impl Strategy<Value = Account> {
        (0..50_u32, 1..20_i32, 0..80_i32, 0..120_i32, any::<bool>(), any::<bool>(), 0..60_i32).prop_map(
            |(weight, min, more, desired, limited, idle, max)| Account {
                bounds: Bounds { min, max: min + more },
                max: min + max,
                desired,
                weight,
                limited,
                idle,
            },
        )
    }

    proptest! {
        #[test]
        fn lending_keeps_the_sum_and_the_minima(all in prop::collection::vec(any_account(), 1..8)) {
            let all: BTreeMap<ClusterName, Account> =
                (0..).zip(all).map(|(i, account)| (ClusterName::from(format!("m{i}").as_str()), account)).collect();
            let carried = carry(all.clone());
            let shares: i32 = all.values().map(|account| account.bounds.max).sum();
            prop_assert_eq!(carried.values().sum::<i32>(), shares);
            let now: BTreeMap<ClusterName, Account> =
                all.into_iter().map(|(name, account)| (name.clone(), Account { max: carried[&name], ..account })).collect();
            prop_assert!(now.values().all(|account| account.max >= account.bounds.min));
            for maxima in lend(&now).map(|loan| loan.maxima).into_iter().chain(give_back(&now)) {
                prop_assert_eq!(maxima.values().sum::<i32>(), shares);
                for (name, max) in &maxima {
                    let account = &now[name];
                    prop_assert!(*max >= account.bounds.min);
                    prop_assert!(*max >= account.desired.min(account.max) || account.idle, "{} of {:?}", max, account);
                }
            }
        }
    }
}
