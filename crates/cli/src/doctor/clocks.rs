//! Clocks that differ: leases, tokens, certificates and the times of taints are judged by them.

use std::time::Duration;

use ironclad_seam::Clock;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use kube::{Client, client::Body};

use crate::members::{Member, ask, within};
use ironclad_planning::doctor::{Finding, Grade};

/// Smallest difference between clocks that is reported.
const APART_MAX: SignedDuration = SignedDuration::from_secs(10);
/// Resolution of the dates in answers.
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// The date of an answer, and between which moments of ours it was given.
struct Answer {
    date: String,
    asked: Timestamp,
    answered: Timestamp,
}

/// Compares the clocks of all servers. Servers that do not answer are reported elsewhere; those without a date are
/// skipped.
pub(super) async fn findings<'m>(
    plane: &Client,
    members: impl IntoIterator<Item = &'m Member>,
    clock: &Clock,
    patience: Duration,
) -> Vec<Finding> {
    let of_plane = within(clock, patience, date(plane, clock)).await.ok().flatten();
    let of_plane = of_plane.and_then(|answer| finding("the control plane", &answer));
    let answers = ask(members, clock, patience, async |_, client| Ok(date(&client, clock).await)).await.answered;
    let of_members = answers.iter().filter_map(|(name, answer)| finding(&format!("cluster {name}"), answer.as_ref()?));
    of_plane.into_iter().chain(of_members).collect()
}

async fn date(client: &Client, clock: &Clock) -> Option<Answer> {
    let request = http::Request::get("/version").body(Body::empty()).ok()?;
    let asked = clock.wall();
    let answer = client.send(request).await.ok()?;
    let date = answer.headers().get(http::header::DATE)?.to_str().ok()?.to_owned();
    Some(Answer { date, asked, answered: clock.wall() })
}

fn finding(whose: &str, answer: &Answer) -> Option<Finding> {
    let date = rfc2822::DateTimeParser::new().parse_timestamp(&answer.date).ok()?;
    let apart = apart(date, answer.asked, answer.answered)?;
    let which = if apart.is_negative() { "behind" } else { "ahead of" };
    let line = format!("the clock of {whose} is {} s {which} this machine's", apart.abs().as_secs());
    Some(Finding::new(Grade::Warning, line).remedy("timedatectl on both, to see which of them is synchronised"))
}

/// Lead over our clock of a clock that answered `date` between these two times; `None` if they may agree.
fn apart(date: Timestamp, asked: Timestamp, answered: Timestamp) -> Option<SignedDuration> {
    let (ahead, behind) = (date.duration_since(answered), asked.duration_since(date) - SECOND);
    if ahead > APART_MAX {
        Some(ahead)
    } else if behind > APART_MAX {
        Some(-behind)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::members::Access;

    #[test]
    fn skew_of_a_clock() {
        let at = |ms: i64| Timestamp::from_millisecond(1_700_000_000_000 + ms).unwrap();
        // Requested at second 0, response after two seconds.
        for (name, date, want) in [
            ("in between", 1_000, None),
            ("truncated to the second", -900, None),
            ("ahead by the tolerated skew", 12_000, None),
            ("further", 13_000, Some(11)),
            ("behind by the tolerated skew", -11_000, None),
            ("further behind", -12_000, Some(-11)),
        ] {
            assert_eq!(apart(at(date), at(0), at(2_000)).map(|apart| apart.as_secs()), want, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_of_servers_are_compared_with_the_local_clock() {
        let clock = Clock::simulated("2026-01-01T00:10:00Z".parse().unwrap());
        let dated = |date: Option<&'static str>| {
            let service = tower::service_fn(move |_: http::Request<Body>| async move {
                let mut answer = http::Response::builder();
                if let Some(date) = date {
                    answer = answer.header(http::header::DATE, date);
                }
                Ok::<_, Infallible>(answer.body(Body::from(b"{}".to_vec())).unwrap())
            });
            Client::new(service, "default")
        };
        let by_client = |client| Ok(Access::Client(client));
        let member = |name: &str, access| Member { name: name.to_owned(), access };
        let members = [
            member("late", by_client(dated(Some("Thu, 01 Jan 2026 00:05:00 GMT")))),
            member("right", by_client(dated(Some("Thu, 01 Jan 2026 00:10:00 GMT")))),
            member("odd", by_client(dated(Some("yesterday")))),
            member("gone", Err("no answer".to_owned())),
        ];
        let found = findings(&dated(None), &members, &clock, Duration::from_secs(5)).await;
        let texts: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(texts, ["the clock of cluster late is 299 s behind this machine's"]);
    }
}
