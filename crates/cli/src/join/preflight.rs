//! Checks of a member before anything is written to it.

use std::time::Duration;

use ironclad_api::labels::{MANAGED, TRUE};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Service},
    },
    apimachinery::pkg::version::Info,
};
use kube::{Client, Resource, api::ListParams, client::Body};

/// Clock skew beyond which a warning is printed: it breaks signed tokens and Leases.
const SKEW_MAX: SignedDuration = SignedDuration::from_secs(5);
/// Latency beyond which a warning is printed.
const SLOW: Duration = Duration::from_millis(500);

/// Properties of a member.
#[derive(Debug, Clone, PartialEq)]
pub struct Preflight {
    /// Its git version.
    pub version: String,
    /// Latency of an answer.
    pub latency: Duration,
    /// Lead of its clock over ours, in seconds; `None` if it sends no date.
    pub skew: Option<SignedDuration>,
    /// Objects of common kinds that a control plane put there before.
    pub managed_objects: i64,
}

impl Preflight {
    /// Asks the member.
    ///
    /// # Errors
    /// If it does not answer, or not with a version.
    pub async fn of(member: &Client, clock: &Clock) -> Result<Self, kube::Error> {
        let began = clock.mono();
        let request = http::Request::get("/version").body(Body::empty()).map_err(kube::Error::HttpError)?;
        let response = member.send(request).await?;
        let latency = clock.mono() - began;
        let date = response.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
        let skew = date.and_then(|date| skew(date, clock.wall()));
        let info: Info = member.apiserver_version().await?;
        let mut managed_objects = 0;
        managed_objects += managed::<Deployment>(member).await;
        managed_objects += managed::<ConfigMap>(member).await;
        managed_objects += managed::<Service>(member).await;
        Ok(Self { version: info.git_version, latency, skew, managed_objects })
    }

    /// Warnings, one line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines =
            vec![format!("member: Kubernetes {}, answers in {} ms", self.version, self.latency.as_millis())];
        if self.latency > SLOW {
            lines.push(format!("warning: the member is slow to answer ({} ms)", self.latency.as_millis()));
        }
        if let Some(skew) = self.skew.filter(|skew| skew.abs() > SKEW_MAX) {
            lines.push(format!("warning: the member's clock is {} s away from this machine's", skew.as_secs()));
        }
        if self.managed_objects > 0 {
            lines.push(format!(
                "warning: the member has at least {} Deployments, ConfigMaps and Services that a control plane propagated (label \
                 {MANAGED}={TRUE})",
                self.managed_objects
            ));
        }
        lines
    }
}

/// Lead of a `Date` header over `now`; zero within its second.
fn skew(date: &str, now: Timestamp) -> Option<SignedDuration> {
    let date = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(SignedDuration::from_secs(date.as_second() - now.as_second()))
}

/// Number of managed objects of this kind; 0 if the member does not permit to list them.
async fn managed<K>(member: &Client) -> i64
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    let labelled = ListParams::default().labels(&format!("{MANAGED}={TRUE}")).limit(1);
    let list = Api::<K>::all(member.clone()).list_metadata(&labelled).await;
    list.map_or(0, |list| list.items.len() as i64 + list.metadata.remaining_item_count.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks() {
        let now: Timestamp = "2026-11-21T08:00:00.9Z".parse().unwrap();
        assert_eq!(skew("Sat, 21 Nov 2026 08:00:00 GMT", now), Some(SignedDuration::ZERO));
        assert_eq!(skew("Sat, 21 Nov 2026 08:01:00 GMT", now), Some(SignedDuration::from_secs(60)));
        assert_eq!(skew("yesterday", now), None);
    }

    #[test]
    fn slow_skewed_and_managed_members_cause_warnings() {
        let fine = Preflight {
            version: "v1.36.3".into(),
            latency: Duration::from_millis(4),
            skew: Some(SignedDuration::from_secs(-5)),
            managed_objects: 0,
        };
        assert_eq!(fine.lines(), ["member: Kubernetes v1.36.3, answers in 4 ms"]);
        let odd = Preflight {
            latency: Duration::from_millis(501),
            skew: Some(SignedDuration::from_secs(-6)),
            managed_objects: 3,
            ..fine
        };
        assert_eq!(odd.lines().iter().filter(|line| line.starts_with("warning: ")).count(), 3, "{:?}", odd.lines());
    }
}
