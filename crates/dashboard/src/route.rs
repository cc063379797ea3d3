//! Paths and queries: from an address to what is shown.

use percent_encoding::percent_decode_str;

use crate::{
    action,
    door::{LOGIN, LOGOUT},
    rows::Wanted,
    views::{Account, Change, Question, Reference},
};

/// Clusters that a plan takes at most.
const CLUSTERS_MAX: usize = 100;

/// First parts of the addresses of pages without a subject.
const PAGES: [&str; 11] = [
    "", "workloads", "policies", "services", "quotas", "evictions", "events", "scheduling", "autoscalers", "plan",
    "system",
];

/// Target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// The document, which every page has.
    Page,
    /// An embedded file.
    File(String),
    /// Begins a session.
    Login(String),
    /// Ends a session.
    Logout,
    /// Description of the session.
    Session,
    /// A view, once.
    View(Question, Wanted),
    /// A view, again and again.
    Follow(Question, Wanted),
    /// An action.
    Do(String),
    /// The plan for manifests that the request has.
    PlanApply,
    /// Nothing is there.
    None,
}

/// The target of this path and query.
pub(crate) fn route(path: &str, query: &str) -> Route {
    let pairs = pairs(query);
    let value = |key: &str| pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    if path == LOGIN {
        return Route::Login(value("secret").unwrap_or_default().to_owned());
    }
    match path {
        LOGOUT => return Route::Logout,
        "/session" => return Route::Session,
        "/plan/apply" => return Route::PlanApply,
        _ => {}
    }
    if let Some(name) = path.strip_prefix("/files/") {
        return Route::File(name.to_owned());
    }
    if let Some(name) = path.strip_prefix("/do/").filter(|name| action::NAMES.contains(name)) {
        return Route::Do(name.to_owned());
    }
    let wanted = || Wanted::of(&pairs);
    if let Some(view) = path.strip_prefix("/api/") {
        return question(view, &pairs).map_or(Route::None, |question| Route::View(question, wanted()));
    }
    if path == "/stream" {
        let question = value("view").and_then(|view| question(view, &pairs));
        return match question.filter(Question::is_followed) {
            Some(question) => Route::Follow(question, wanted()),
            None => Route::None,
        };
    }
    if is_page(path) { Route::Page } else { Route::None }
}

/// True for the address of a page.
fn is_page(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts.as_slice() {
        [page] => PAGES.contains(page),
        ["cluster", name] => !name.is_empty(),
        ["autoscaler", namespace, name] => !namespace.is_empty() && !name.is_empty(),
        ["workload", namespace, kind, name] => ![namespace, kind, name].iter().any(|part| part.is_empty()),
        _ => false,
    }
}

fn question(view: &str, pairs: &[(String, String)]) -> Option<Question> {
    let value = |key: &str| {
        let value = pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        value.filter(|value| !value.is_empty())
    };
    let template = || {
        let (namespace, kind, name) = (value("namespace").unwrap_or_default(), value("kind")?, value("name")?);
        Some(Reference { namespace, kind, name })
    };
    Some(match view {
        "fleet" => Question::Fleet,
        "cluster" => Question::Cluster(value("name")?),
        "workloads" => Question::Workloads,
        "workload" => Question::Workload(template()?),
        "why" => Question::Why(template()?),
        "manifests" => Question::Manifests(template()?, value("cluster")),
        "logs" => Question::Logs(template()?),
        "node-usage" => Question::NodeUsage(value("name")?),
        "pod-usage" => Question::PodUsage(template()?),
        "timeline" => Question::Timeline(template()?),
        "policies" => Question::Policies,
        "services" => Question::Services,
        "quotas" => Question::Quotas,
        "evictions" => Question::Evictions,
        "events" => Question::Events,
        "system" => Question::System,
        "doctor" => Question::Doctor,
        "scheduling" => Question::Scheduling,
        "preemptions" => Question::Preemptions,
        "accounts" => Question::Accounts(match value("by").as_deref() {
            Some("nodes") => Account::Nodes,
            _ => Account::Reports,
        }),
        "autoscalers" => Question::Autoscalers,
        "autoscaler" => Question::Autoscaler(value("namespace")?, value("name")?),
        "plan" => Question::Plan(match value("verb")?.as_str() {
            "cluster-loss" => {
                let all = pairs.iter().filter(|(name, value)| name == "cluster" && !value.is_empty());
                let clusters: Vec<String> = all.take(CLUSTERS_MAX).map(|(_, value)| value.clone()).collect();
                Change::Loss(Some(clusters).filter(|all| !all.is_empty())?)
            }
            "taint" => Change::Taint(value("cluster")?, value("taint")?),
            "rate" => Change::Rate(value("rate")?),
            "preemption" => Change::Preemption(value("namespace").unwrap_or_default(), value("name")?),
            "priority-class" => Change::PriorityClass(value("name")?),
            "load" => Change::Load(value("namespace").unwrap_or_default(), value("name")?, value("multiply")?),
            _ => return None,
        }),
        _ => return None,
    })
}

/// Names and values of a query, or of a form. What is no UTF-8 is replaced.
pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    };
    query.split('&').filter(|one| !one.is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_views() {
        let web = Reference { namespace: "shop".into(), kind: "deployment.apps".into(), name: "web".into() };
        let view = |question| Route::View(question, Wanted::default());
        for (path, query, want) in [
            ("/", "", Route::Page),
            ("/workloads", "filter=x", Route::Page),
            ("/policies", "", Route::Page),
            ("/services", "", Route::Page),
            ("/quotas", "", Route::Page),
            ("/cluster/m1", "", Route::Page),
            ("/cluster/", "", Route::None),
            ("/cluster/m1/x", "", Route::None),
            ("/workload/shop/deployment.apps/web", "tab=why", Route::Page),
            ("/workload/shop/deployment.apps/", "", Route::None),
            ("/autoscaler/shop/web", "", Route::Page),
            ("/autoscaler/shop/", "", Route::None),
            ("/nothing", "", Route::None),
            ("//evil.example", "", Route::None),
            ("", "", Route::None),
            ("/files/app.js", "", Route::File("app.js".into())),
            ("/files/../x", "", Route::File("../x".into())),
            ("/login", "secret=abc", Route::Login("abc".into())),
            ("/login", "", Route::Login(String::new())),
            ("/logout", "", Route::Logout),
            ("/session", "", Route::Session),
            ("/session/x", "", Route::None),
            ("/do/cordon", "", Route::Do("cordon".into())),
            ("/do/cordon/", "", Route::None),
            ("/do/delete", "", Route::None),
            ("/do/", "", Route::None),
            ("/api/fleet", "", view(Question::Fleet)),
            ("/api/policies", "", view(Question::Policies)),
            ("/api/services", "", view(Question::Services)),
            ("/api/quotas", "", view(Question::Quotas)),
            ("/api/preemptions", "", view(Question::Preemptions)),
            ("/api/accounts", "", view(Question::Accounts(Account::Reports))),
            ("/api/accounts", "by=nodes", view(Question::Accounts(Account::Nodes))),
            ("/api/cluster", "name=m%31", view(Question::Cluster("m1".into()))),
            ("/api/cluster", "name=", Route::None),
            ("/api/autoscaler", "namespace=shop&name=web", view(Question::Autoscaler("shop".into(), "web".into()))),
            ("/api/node-usage", "name=m1", view(Question::NodeUsage("m1".into()))),
            ("/api/pod-usage", "namespace=shop&kind=deployment.apps&name=web", view(Question::PodUsage(web.clone()))),
            ("/api/why", "namespace=shop&kind=deployment.apps&name=web", view(Question::Why(web.clone()))),
            ("/api/why", "namespace=shop&name=web", Route::None),
            ("/api/logs", "namespace=shop&kind=deployment.apps&name=web", view(Question::Logs(web.clone()))),
            (
                "/api/manifests",
                "namespace=shop&kind=deployment.apps&name=web&cluster=m1",
                view(Question::Manifests(web.clone(), Some("m1".into()))),
            ),
            ("/api/manifests", "name=web&cluster=m1", Route::None),
            ("/plan/apply", "", Route::PlanApply),
            ("/plan/apply/", "", Route::None),
            ("/plan/load", "", Route::None),
            (
                "/api/plan",
                "verb=cluster-loss&cluster=m1&cluster=m2",
                view(Question::Plan(Change::Loss(vec!["m1".into(), "m2".into()]))),
            ),
            ("/api/plan", "", Route::None),
            ("/api/plan", "cluster=m1", Route::None),
            ("/api/plan", "verb=cluster-loss", Route::None),
            ("/api/plan", "verb=rate&rate=5", view(Question::Plan(Change::Rate("5".into())))),
            (
                "/api/plan",
                "verb=preemption&namespace=shop&name=web",
                view(Question::Plan(Change::Preemption("shop".into(), "web".into()))),
            ),
            ("/api/plan", "verb=priority-class&name=high", view(Question::Plan(Change::PriorityClass("high".into())))),
            (
                "/api/plan",
                "verb=load&namespace=shop&name=web&multiply=3",
                view(Question::Plan(Change::Load("shop".into(), "web".into(), "3".into()))),
            ),
            ("/api/plan", "verb=load&name=web", Route::None),
            ("/api/plan", "verb=apply", Route::None),
            (
                "/api/plan",
                "verb=taint&cluster=m1&taint=a%3Db%3ANoExecute",
                view(Question::Plan(Change::Taint("m1".into(), "a=b:NoExecute".into()))),
            ),
            ("/api/plan", "verb=taint&taint=a:NoExecute", Route::None),
            ("/api/nothing", "", Route::None),
            ("/stream", "view=fleet", Route::Follow(Question::Fleet, Wanted::default())),
            (
                "/stream",
                "view=workload&namespace=shop&kind=deployment.apps&name=web",
                Route::Follow(Question::Workload(web), Wanted::default()),
            ),
            ("/stream", "view=doctor", Route::None),
            ("/stream", "view=logs&kind=deployment.apps&name=web", Route::None),
            ("/stream", "view=accounts&by=nodes", Route::None),
            ("/stream", "view=nothing", Route::None),
            ("/stream", "", Route::None),
        ] {
            assert_eq!(route(path, query), want, "{path}?{query}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            pairs("a=1&b=%C3%A4+x&c&=d&&e=%ff%"),
            [pair("a", "1"), pair("b", "ä x"), pair("c", ""), pair("", "d"), pair("e", "\u{fffd}%"),]
        );
    }
}
