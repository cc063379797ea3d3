//! Rate of evictions (specification/failover.md 6.4): a pure function of two counts and the flags; and the pacer that
//! all workers keep (IR-22).

use std::{collections::VecDeque, time::Duration};

use crate::flags::eviction::EvictionFlags;

/// Number of counted clusters, and of the unhealthy ones among them (6.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counts {
    /// Clusters that count.
    pub total: usize,
    /// Those of them that are unhealthy.
    pub unhealthy: usize,
}

impl Counts {
    /// The share of unhealthy clusters, 0 in an empty fleet.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.total == 0 { 0.0 } else { float(self.unhealthy) / float(self.total) }
    }

    /// True if there are clusters and none of them is healthy.
    #[must_use]
    pub fn is_total_outage(&self) -> bool {
        self.total > 0 && self.unhealthy == self.total
    }
}

/// A count as a float; fleets have far fewer clusters than a float can distinguish.
#[allow(clippy::cast_precision_loss, reason = "fleets have far fewer clusters than a float distinguishes")]
fn float(count: usize) -> f64 {
    count as f64
}

/// Which rate is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Most clusters are healthy.
    Normal,
    /// Too many are not, in a large fleet.
    Secondary,
    /// Too many are not, in a small fleet; or all.
    Halted,
    /// A guard or a person holds evictions back for now.
    Held,
}

impl State {
    /// The label of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Secondary => "secondary",
            Self::Halted => "halted",
            Self::Held => "held",
        }
    }

    /// All states.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Secondary, Self::Halted, Self::Held];
}

/// The formula: evictions per second, and the rule that they follow from.
#[must_use]
pub fn formula(counts: Counts, flags: &EvictionFlags) -> (f64, State) {
    // A product and a small margin, since 11 of 20 must not exceed 0.55 by an error of the last digit.
    let bearable = flags.unhealthy_cluster_threshold * float(counts.total) + 1e-9;
    let large = usize::try_from(flags.large_cluster_num_threshold).unwrap_or(0);
    if counts.total == 0 || float(counts.unhealthy) <= bearable {
        (flags.primary(), State::Normal)
    } else if counts.total > large && flags.secondary() > 0.0 {
        (flags.secondary(), State::Secondary)
    } else {
        (0.0, State::Halted)
    }
}

/// The time between two evictions at this rate per second, never shorter than the rate allows; `None` at rate 0.
#[must_use]
pub fn interval(rate: f64) -> Option<Duration> {
    if rate.is_nan() || rate <= 0.0 {
        return None;
    }
    let nanos = (1e9 / rate).ceil().min(1e18);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range of u64")]
    Some(Duration::from_nanos(nanos as u64))
}

/// An answer within this time counts as given at once, and an eviction that starts within this time after it was due
/// as in time.
pub const PROMPT: Duration = Duration::from_millis(100);

/// Time by which a window of evictions may seem shorter than it counts (invariant 1): starts that are late, answers
/// that are late, and what starts until a late one is noticed.
pub const SLACK: Duration = Duration::from_millis(300);

/// Most writes without a response at one time, whatever the rate.
const WRITES_MAX: u128 = 50;

/// The pace: one token, no burst. It remembers when the last eviction was due; so a change of the rate moves the next
/// one at once, and a process that has just started counts as one that has just evicted. A start that is late by less
/// than [`PROMPT`] delays no later one, or the lateness of each would add up; after an idle time the pace begins anew.
///
/// The rate counts when evictions take effect. While a write is late, no eviction starts, and its answer counts as the
/// start: however slow the control plane is, delayed evictions do not take effect in a burst (invariant 1). No more
/// evictions can be delayed than there are workers: at a rate that allows so many within [`PROMPT`], nothing waits for
/// late answers, and as many may be under way as it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pacer {
    /// Most writes without a response at one time, at a rate that allows fewer within [`PROMPT`].
    workers: u32,
    /// Time from which the next interval counts.
    last: Duration,
    /// Start times of writes without a response; at most one per worker.
    unanswered: Vec<Duration>,
}

/// Leave for one eviction, to be answered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    taken: Duration,
    counts_from: Duration,
    before: Duration,
}

impl Pacer {
    /// The pace of a process that starts now and has at most this many writes without a response.
    #[must_use]
    pub fn new(start: Duration, workers: u32) -> Self {
        Self { workers: workers.max(1), last: start, unanswered: Vec::new() }
    }

    /// Time at which the next eviction may start at this rate, if all writes get responses by then; `None` is never.
    #[must_use]
    pub fn next_allowed(&self, rate: f64) -> Option<Duration> {
        interval(rate).map(|interval| self.last.saturating_add(interval))
    }

    /// True while as many writes are under way as may be at this rate.
    #[must_use]
    pub fn is_busy(&self, rate: f64) -> bool {
        let prompt = interval(rate).map_or(0, |each| PROMPT.as_nanos() / each.as_nanos().max(1));
        let most = prompt.min(WRITES_MAX).max(u128::from(self.workers));
        self.unanswered.len() >= usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// True while a write is late: the next eviction at this rate waits for its answer.
    #[must_use]
    pub fn awaits_answer(&self, rate: f64, now: Duration) -> bool {
        let burst = interval(rate).map(|interval| interval.saturating_mul(self.workers));
        burst.is_none_or(|burst| burst > PROMPT) && self.unanswered.iter().any(|taken| is_late(*taken, now))
    }

    /// Takes the token, if it is there.
    pub fn take(&mut self, rate: f64, now: Duration) -> Option<Token> {
        let due = self.next_allowed(rate).filter(|due| *due <= now && !self.awaits_answer(rate, now))?;
        self.unanswered.push(now);
        let counts_from = if is_late(due, now) { now } else { due };
        let before = std::mem::replace(&mut self.last, counts_from);
        Some(Token { taken: now, counts_from, before })
    }

    /// The write was answered, or given up: it may have taken effect as late as now.
    pub fn answered(&mut self, token: Token, now: Duration) {
        self.settle(token);
        if is_late(token.taken, now) {
            self.last = self.last.max(now.saturating_sub(PROMPT));
        }
    }

    /// Returns the token of a write that did not happen, unless another was taken since.
    pub fn give_back(&mut self, token: Token) {
        self.settle(token);
        if self.last == token.counts_from {
            self.last = token.before;
        }
    }

    fn settle(&mut self, token: Token) {
        if let Some(at) = self.unanswered.iter().position(|taken| *taken == token.taken) {
            self.unanswered.swap_remove(at);
        }
    }
}

fn is_late(taken: Duration, now: Duration) -> bool {
    now > taken.saturating_add(PROMPT)
}

/// Seconds over which the reached rate is measured.
const MEASURED_OVER: u64 = 30;
/// Seconds that it takes at least.
const MEASURED_AFTER: u64 = 5;

/// The rate that evictions reach while some of them are due all the time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reached {
    /// Since when something is due at this rate.
    since: Option<(Duration, f64)>,
    /// Evictions by the second in which they were written, the newest last.
    written: VecDeque<(u64, u32)>,
}

impl Reached {
    /// Notes the rate in force, and that something is due, or that nothing is.
    pub fn observe(&mut self, rate: f64, is_due: bool, now: Duration) {
        let goes_on = self.since.is_some_and(|(_, before)| before.total_cmp(&rate).is_eq());
        if !is_due || rate <= 0.0 {
            *self = Self::default();
        } else if !goes_on {
            *self = Self { since: Some((now, rate)), written: VecDeque::new() };
        }
    }

    /// Notes an eviction.
    pub fn evicted(&mut self, now: Duration) {
        let second = now.as_secs();
        match self.written.back_mut() {
            Some((last, count)) if *last == second => *count += 1,
            _ => self.written.push_back((second, 1)),
        }
        self.written.retain(|(at, _)| at + MEASURED_OVER >= second);
    }

    /// Evictions per second over the last seconds, if they are fewer than the rate in force by more than a twentieth.
    #[must_use]
    pub fn less_than_allowed(&self, now: Duration) -> Option<f64> {
        let (since, rate) = self.since?;
        // Whole seconds that have passed since then.
        let (first, end) = (since.as_secs() + 1, now.as_secs());
        let first = first.max(end.saturating_sub(MEASURED_OVER));
        let seconds = end.checked_sub(first).filter(|seconds| *seconds >= MEASURED_AFTER)?;
        let within = self.written.iter().filter(|(at, _)| (first..end).contains(at));
        let count: u32 = within.map(|(_, count)| count).sum();
        let over = Duration::from_secs(seconds).as_secs_f64();
        // Slow rates do not evict in each second.
        (f64::from(count) + 1.0 < 0.95 * rate * over).then(|| f64::from(count) / over)
    }
}

/// Limit of repeated attempts of all elements together: a bucket of `--rate-limiter-bucket-size` that fills at
/// `--rate-limiter-qps`. First attempts have the pace already; without this a member of the control plane that
/// conflicts for ever would be asked as fast as it answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retries {
    /// Time at which the bucket is full again.
    full_at: Duration,
}

impl Retries {
    /// Reserves a retry; returns the wait until it may start.
    pub fn reserve(&mut self, flags: &EvictionFlags, now: Duration) -> Duration {
        let Some(each) = interval(flags.rate_limiter_qps) else { return flags.rate_limiter_max_delay };
        let burst = each.saturating_mul(flags.rate_limiter_bucket_size.max(1));
        self.full_at = self.full_at.max(now).saturating_add(each);
        self.full_at.saturating_sub(now).saturating_sub(burst)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rate_follows_the_table_of_6_4() {
        use State::{Halted, Normal, Secondary};
        let plain = EvictionFlags::default();
        let no_secondary = EvictionFlags { secondary_resource_eviction_rate: 0.0, ..plain.clone() };
        for (total, unhealthy, flags, rate, state) in [
            (0, 0, &plain, 0.5, Normal),
            (1, 1, &plain, 0.0, Halted),
            (2, 1, &plain, 0.5, Normal),
            (3, 1, &plain, 0.5, Normal),
            (3, 2, &plain, 0.0, Halted),
            (9, 5, &plain, 0.0, Halted),
            (10, 5, &plain, 0.5, Normal),
            (10, 6, &plain, 0.0, Halted),
            (11, 6, &plain, 0.5, Normal),
            (11, 7, &plain, 0.1, Secondary),
            (20, 11, &plain, 0.5, Normal),
            (20, 12, &plain, 0.1, Secondary),
            (100, 55, &plain, 0.5, Normal),
            (100, 56, &plain, 0.1, Secondary),
            (100, 100, &plain, 0.1, Secondary),
            (40, 23, &no_secondary, 0.0, Halted),
            // Rows B44, B45.
            (12, 7, &plain, 0.1, Secondary),
            (12, 6, &plain, 0.5, Normal),
        ] {
            assert_eq!(formula(Counts { total, unhealthy }, flags), (rate, state), "{unhealthy} of {total}");
        }
    }

    #[test]
    fn flags_change_the_rate() {
        let counts = Counts { total: 20, unhealthy: 15 };
        for (name, flags, want) in [
            (
                "a secondary rate above the primary is clamped",
                EvictionFlags { secondary_resource_eviction_rate: 7.0, ..EvictionFlags::default() },
                (0.5, State::Secondary),
            ),
            (
                "a primary rate of zero pauses everything",
                EvictionFlags { resource_eviction_rate: 0.0, ..EvictionFlags::default() },
                (0.0, State::Halted),
            ),
            (
                "a threshold of 1 is never exceeded",
                EvictionFlags { unhealthy_cluster_threshold: 1.0, ..EvictionFlags::default() },
                (0.5, State::Normal),
            ),
            (
                "the fleet is below the threshold for large fleets",
                EvictionFlags { large_cluster_num_threshold: 20, ..EvictionFlags::default() },
                (0.0, State::Halted),
            ),
        ] {
            assert_eq!(formula(counts, &flags), want, "{name}");
        }
    }

    #[test]
    fn interval_between_evictions() {
        for (rate, millis) in [
            (0.5, Some(2_000)),
            (0.1, Some(10_000)),
            (50.0, Some(20)),
            (20.0, Some(50)),
            (30.0, Some(33)),
            (10.0, Some(100)),
            (0.0, None),
            (-1.0, None),
            (f64::NAN, None),
        ] {
            assert_eq!(interval(rate).map(|i| i.as_millis()), millis, "{rate}");
        }
        assert!(interval(30.0).unwrap() * 30 >= Duration::from_secs(1), "rounding does not exceed the rate");
    }

    #[test]
    fn evictions_are_paced() {
        const S: fn(u64) -> Duration = Duration::from_secs;
        let mut pacer = Pacer::new(S(100), 5);
        assert_eq!(pacer.next_allowed(0.5), Some(S(102)), "the start of the process counts as an eviction");
        assert!(pacer.take(0.5, S(101)).is_none());
        let first = pacer.take(0.5, S(130));
        assert!(first.is_some(), "allowed at once after an idle time");
        assert!(pacer.take(0.5, S(131)).is_none(), "idle time allows no burst");
        assert_eq!(pacer.next_allowed(0.1), Some(S(140)), "a new rate counts from the last eviction");
        assert_eq!(pacer.next_allowed(0.0), None);
        let token = pacer.take(0.5, S(132));
        assert!(token.is_none(), "the write of second 130 has no response yet");
        pacer.answered(first.unwrap(), S(130));
        let token = pacer.take(0.5, S(132)).unwrap();
        pacer.give_back(token);
        assert_eq!(pacer.next_allowed(0.5), Some(S(132)), "an eviction that was not written does not count");
        const MS: fn(u64) -> Duration = Duration::from_millis;
        let lost = pacer.take(50.0, MS(132_000)).unwrap();
        let next = pacer.take(50.0, MS(132_050)).unwrap();
        pacer.give_back(lost);
        assert_eq!(pacer.next_allowed(0.5), Some(MS(134_020)), "a later eviction has started");
        pacer.answered(next, MS(132_150));
        assert_eq!(pacer.next_allowed(0.5), Some(MS(134_020)), "a prompt response does not change the pace");
    }

    /// Seconds in which 2,000 evictions leave at this rate, although each step starts late and each write takes some
    /// time; and the most of them that started within a second.
    fn leaving(rate: f64, late: &[u64], latency: &[u64]) -> (f64, usize) {
        const MS: fn(u64) -> Duration = Duration::from_millis;
        let (mut pacer, mut now, mut step) = (Pacer::new(MS(0), 5), MS(0), 0);
        let (mut starts, mut in_flight): (Vec<Duration>, Vec<(Duration, Token)>) = (Vec::new(), Vec::new());
        while starts.len() < 2_000 {
            in_flight.sort_by_key(|(at, _)| *at);
            while in_flight.first().is_some_and(|(at, _)| *at <= now) {
                let (at, token) = in_flight.remove(0);
                pacer.answered(token, at);
            }
            if let Some(token) = (!pacer.is_busy(rate)).then(|| pacer.take(rate, now)).flatten() {
                in_flight.push((now + MS(latency[starts.len() % latency.len()]), token));
                starts.push(now);
                continue;
            }
            let due = pacer.next_allowed(rate).filter(|due| *due > now && !pacer.is_busy(rate));
            let next = [due, in_flight.iter().map(|(at, _)| *at).min()].into_iter().flatten().min();
            now = next.unwrap_or(now) + MS(late[step % late.len()]);
            step += 1;
        }
        let within = |from: usize| starts[from..].iter().take_while(|at| **at < starts[from] + MS(1_000)).count();
        ((starts[1_999] - starts[0]).as_secs_f64(), (0..2_000).map(within).max().unwrap())
    }

    /// A step that starts late, or a slow write, delays no later one: rates are reached within a twentieth.
    #[test]
    fn rates_are_reached_although_each_step_is_late() {
        for rate in [0.5, 1.0, 10.0, 20.0, 50.0, 100.0, 200.0] {
            for (late, latency) in
                [(&[0][..], &[0][..]), (&[1], &[3]), (&[0, 1, 3, 7, 20], &[2, 15, 40, 90]), (&[12, 60], &[5, 35])]
            {
                let (took, most) = leaving(rate, late, latency);
                let want = 1_999.0 / rate;
                assert!((took / want - 1.0).abs() < 0.05, "{rate}/s, {late:?}, {latency:?}: {took} s of {want} s");
                let allowed = (rate * (1.0 + SLACK.as_secs_f64())).floor() as usize + 1;
                assert!(most <= allowed, "{rate}/s, {late:?}, {latency:?}: {most} of {allowed} in a second");
            }
        }
    }

    #[test]
    fn the_reached_rate_is_told_if_it_is_less() {
        const MS: fn(u64) -> Duration = Duration::from_millis;
        for (name, rate, every, until, want) in [
            ("as allowed", 20.0, 50, 60_000, None),
            ("a little less", 20.0, 52, 60_000, None),
            ("less", 20.0, 100, 60_000, Some(10.0)),
            ("measured for too short a time", 20.0, 100, 5_900, None),
            ("measured for long enough", 20.0, 100, 6_000, Some(10.0)),
            ("a slow rate is reached, although not in each window", 0.5, 2_000, 61_000, None),
            ("a slow rate is not reached", 0.5, 9_000, 61_000, Some(0.1)),
        ] {
            let mut reached = Reached::default();
            for at in (500..until).step_by(every) {
                reached.observe(rate, true, MS(at));
                reached.evicted(MS(at));
            }
            let got = reached.less_than_allowed(MS(until));
            assert!(got.map(|rate| (rate * 10.0).round() / 10.0) == want, "{name}: {got:?}");
            reached.observe(rate / 2.0, true, MS(until));
            assert_eq!(reached.less_than_allowed(MS(until + 4_000)), None, "the rate changed: {name}");
            reached.observe(rate / 2.0, false, MS(until + 60_000));
            assert_eq!(reached.less_than_allowed(MS(until + 90_000)), None, "nothing is due: {name}");
        }
    }

    #[test]
    fn late_response_restarts_the_pace() {
        const MS: fn(u64) -> Duration = Duration::from_millis;
        let mut pacer = Pacer::new(MS(0), 5);
        let (first, second) = (pacer.take(20.0, MS(1_000)).unwrap(), pacer.take(20.0, MS(1_050)).unwrap());
        assert!(!pacer.awaits_answer(20.0, MS(1_100)) && pacer.awaits_answer(20.0, MS(1_101)));
        assert!(pacer.take(20.0, MS(9_000)).is_none(), "two writes have no response");
        pacer.answered(first, MS(9_000));
        assert!(pacer.take(20.0, MS(9_500)).is_none(), "one write has no response");
        pacer.answered(second, MS(9_600));
        assert!(pacer.take(20.0, MS(9_549)).is_none());
        assert_eq!(pacer.next_allowed(20.0), Some(MS(9_550)), "a response counts as what is late by PROMPT");
        assert!(pacer.take(20.0, MS(9_600)).is_some());
        assert!(pacer.take(20.0, MS(9_600)).is_some(), "the second was due at the same time");
        assert!(pacer.take(20.0, MS(9_600)).is_none());
    }

    #[test]
    fn late_responses_hold_back_no_rate_that_allows_all_of_them_at_once() {
        const MS: fn(u64) -> Duration = Duration::from_millis;
        for (rate, workers, waits) in [
            (0.5, 1, true),
            (49.0, 5, true),
            (50.0, 5, false),
            (50.0, 6, true),
            (10.0, 1, false),
            (1e9, 5, false),
            (0.0, 1, true),
        ] {
            let mut pacer = Pacer::new(MS(0), workers);
            pacer.take(1e9, MS(1_000)).unwrap();
            assert_eq!(pacer.awaits_answer(rate, MS(5_000)), waits, "{rate}/s with {workers} workers");
        }
    }

    #[test]
    fn retries_use_a_token_bucket() {
        const MS: fn(u64) -> Duration = Duration::from_millis;
        let flags = |qps: f64, size: u32| EvictionFlags {
            rate_limiter_qps: qps,
            rate_limiter_bucket_size: size,
            ..EvictionFlags::default()
        };
        let mut retries = Retries::default();
        let (two, at) = (flags(10.0, 2), MS(5_000));
        let waits: Vec<u128> = (0..4).map(|_| retries.reserve(&two, at).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200], "two at once, then one per 100 ms");
        assert_eq!(retries.reserve(&two, MS(5_400)), MS(0), "the bucket is full after 400 ms");
        assert_eq!(retries.reserve(&two, MS(5_400)), MS(0));
        assert_eq!(retries.reserve(&two, MS(5_450)), MS(50), "half a token was refilled");
        let mut retries = Retries::default();
        assert_eq!(
            (0..100).map(|_| retries.reserve(&EvictionFlags::default(), at)).max(),
            Some(MS(0)),
            "the default burst"
        );
        assert_eq!(retries.reserve(&EvictionFlags::default(), at), MS(100));
    }

    proptest! {
        // Within any time span no more attempts start than the bucket holds and refills.
        #[test]
        fn the_bucket_is_never_exceeded(waits in prop::collection::vec(0..400u64, 1..120), size in 1..5u32, qps in prop::sample::select(vec![0.5, 3.0, 10.0])) {
            let flags = EvictionFlags { rate_limiter_qps: qps, rate_limiter_bucket_size: size, ..EvictionFlags::default() };
            let (mut retries, mut now, mut starts) = (Retries::default(), Duration::from_secs(10), Vec::new());
            for wait in waits {
                now += Duration::from_millis(wait);
                starts.push(now + retries.reserve(&flags, now));
            }
            prop_assert!(starts.windows(2).all(|pair| pair[0] <= pair[1]), "attempts keep their order");
            for from in 0..starts.len() {
                for to in from..starts.len() {
                    let gained = (starts[to] - starts[from]).as_secs_f64() * qps + f64::from(size) + 1e-6;
                    prop_assert!((to - from + 1) as f64 <= gained + 1.0, "{} attempts, allowed {gained}", to - from + 1);
                }
            }
        }

        // Invariant 3.
        #[test]
        fn more_unhealthy_clusters_never_raise_the_rate(total in 0..60usize, large in 0..40i32, threshold in 0.0..=1.0f64, primary in 0.0..5.0f64, secondary in 0.0..5.0f64) {
            let flags = EvictionFlags {
                resource_eviction_rate: primary,
                secondary_resource_eviction_rate: secondary,
                unhealthy_cluster_threshold: threshold,
                large_cluster_num_threshold: large,
                ..EvictionFlags::default()
            };
            let rates: Vec<f64> = (0..=total).map(|unhealthy| formula(Counts { total, unhealthy }, &flags).0).collect();
            prop_assert!(rates.windows(2).all(|pair| pair[1] <= pair[0]), "{rates:?}");
        }

        // Invariant 1 for fast rates, whatever the latency.
        #[test]
        fn late_writes_of_few_workers_fit_a_fast_rate(steps in prop::collection::vec((0..30u64, prop::sample::select(vec![0, 90, 700, 9_000])), 1..200), workers in 1..6u32, rate in prop::sample::select(vec![50.0, 200.0, 1e9])) {
            let (mut pacer, mut now) = (Pacer::new(Duration::ZERO, workers), Duration::from_secs(1));
            let (mut effects, mut in_flight): (Vec<Duration>, Vec<(Duration, Token)>) = (Vec::new(), Vec::new());
            for (wait, latency) in steps {
                now += Duration::from_millis(wait);
                in_flight.sort_by_key(|(at, _)| *at);
                while in_flight.first().is_some_and(|(at, _)| *at <= now) {
                    let (at, token) = in_flight.remove(0);
                    pacer.answered(token, at);
                    effects.push(at);
                }
                if let Some(token) = (!pacer.is_busy(rate)).then(|| pacer.take(rate, now)).flatten() {
                    in_flight.push((now + Duration::from_millis(latency), token));
                }
            }
            effects.sort_unstable();
            for from in 0..effects.len() {
                for to in from..effects.len() {
                    let allowed = ((effects[to] - effects[from] + SLACK).as_secs_f64() * rate + 1e-9).floor() + 1.0;
                    prop_assert!((to - from + 1) as f64 <= allowed, "{} of {allowed}", to - from + 1);
                }
            }
        }

        // Invariant 1, for changing rates, times and latencies of responses.
        #[test]
        fn the_rate_is_never_exceeded(steps in prop::collection::vec((0..900u64, prop::sample::select(vec![0.0, 0.1, 0.5, 3.0, 30.0]), prop::sample::select(vec![0, 0, 90, 700, 9_000])), 1..200)) {
            let (mut pacer, mut now) = (Pacer::new(Duration::ZERO, u32::MAX), Duration::ZERO);
            let mut taken: Vec<(Duration, f64)> = Vec::new();
            let mut in_flight: Vec<(Duration, Token, f64)> = Vec::new();
            for (wait, rate, latency) in steps {
                let until = now + Duration::from_millis(wait);
                in_flight.sort_by_key(|(at, ..)| *at);
                while in_flight.first().is_some_and(|(at, ..)| *at <= until) {
                    let (at, token, rate) = in_flight.remove(0);
                    pacer.answered(token, at);
                    // A late eviction counts from its response.
                    taken.push((if is_late(token.taken, at) { at } else { token.taken }, rate));
                }
                now = until;
                if let Some(token) = pacer.take(rate, now) {
                    in_flight.push((now + Duration::from_millis(latency), token, rate));
                }
            }
            taken.sort_by_key(|(at, _)| *at);
            for from in 0..taken.len() {
                for to in from..taken.len() {
                    let fastest = taken[from..=to].iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
                    let span = (taken[to].0 - taken[from].0 + SLACK).as_secs_f64();
                    let allowed = (span * fastest + 1e-9).floor() + 1.0;
                    prop_assert!((to - from + 1) as f64 <= allowed, "{} in {span} s at {fastest}", to - from + 1);
                }
            }
        }
    }
}
