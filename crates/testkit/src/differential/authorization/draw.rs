//! Draws RBAC objects and requests from a seed.

use std::fmt;

use ironclad_seam::{Rng, Stream};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::agents;
use crate::differential::As;

/// The name of ConfigMaps that an admission policy denies to everybody.
pub(super) const DENIED_NAME: &str = "denied";
/// The aggregated ClusterRole.
pub(super) const AGGREGATED: &str = "sum";
/// The ServiceAccount with rights to impersonate, in namespace `a`.
pub(super) const IMPERSONATOR: &str = "impersonator";

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
const NAMESPACES: [&str; 3] = ["a", "b", "none"];
const NAMES: [&str; 5] = ["x", "y", "x", "new", DENIED_NAME];
const ROLES: usize = 10;

/// Users; also names that mean something inside a server.
const USERS: [&str; 14] = [
    "u0", "u1", "u2", "u3", "jürgen", "用户", "a\"b\\c", "u 0", "system:apiserver", "ironclad-controllers",
    "system:kube-controller-manager", "system:serviceaccount:a:x", "system:serviceaccount:b:x", "system:anonymous",
];

const GROUPS: [&str; 6] =
    ["g0", "g1", "gruppe-ß", "system:serviceaccounts", "system:serviceaccounts:a", "system:nodes"];

/// Group, version, plural and kind; `true` for namespaced ones.
const RESOURCES: [(&str, &str, &str, &str, bool); 14] = [
    ("", "v1", "configmaps", "ConfigMap", true),
    ("", "v1", "secrets", "Secret", true),
    ("", "v1", "pods", "Pod", true),
    ("", "v1", "services", "Service", true),
    ("", "v1", "endpoints", "Endpoints", true),
    ("", "v1", "serviceaccounts", "ServiceAccount", true),
    ("", "v1", "namespaces", "Namespace", false),
    ("", "v1", "nodes", "Node", false),
    ("apps", "v1", "deployments", "Deployment", true),
    ("coordination.k8s.io", "v1", "leases", "Lease", true),
    (RBAC, "v1", "roles", "Role", true),
    (RBAC, "v1", "clusterroles", "ClusterRole", false),
    ("x.example", "v1", "widgets", "Widget", true),
    ("apps", "v1", "widgets", "Widget", true),
];

const SUBRESOURCES: [&str; 6] = ["status", "scale", "log", "token", "finalize", "other"];

const VERBS: [&str; 11] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*", "escalate", "bind"];

const PATHS: [&str; 12] = [
    "/healthz", "/healthz/ping", "/livez", "/version", "/metrics", "/api", "/apis", "/apis/apps", "/openapi/v3",
    "/x/y", "/x", "/logs",
];

/// One request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) who: As,
    pub(super) method: &'static str,
    pub(super) path: String,
    /// `$token` stands for the token of the impersonator.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Value>,
    /// A SubjectAccessReview instead of all the above.
    pub(super) review: Option<Value>,
    /// True if nobody may be allowed it, whatever the two servers agree on.
    pub(super) must_be_refused: bool,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(review) = &self.review {
            return write!(f, "{review}");
        }
        write!(f, "{} {} {:?}", self.method, self.path, self.headers)?;
        self.body.iter().try_for_each(|body| write!(f, " {body}"))
    }
}

/// The draws of one run.
pub(super) struct Draw(Stream);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::from_seed(seed).stream("authorization"))
    }

    pub(super) fn one<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(super) fn below(&self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    pub(super) fn chance(&self, probability: f64) -> bool {
        self.0.chance(probability)
    }

    fn some<T: Copy>(&self, of: &[T], most: u64) -> Vec<T> {
        (0..=self.0.below(most)).map(|_| self.one(of)).collect()
    }

    /// The objects to write in this order, and reviews that are allowed once all of them are effective.
    pub(super) fn objects(&mut self) -> (Vec<(String, Value)>, Vec<Value>) {
        let mut out: Vec<(String, Value)> = Vec::new();
        let mut add = |path: &str, object: Value| out.push((path.to_owned(), object));
        for namespace in ["a", "b"] {
            add("/api/v1/namespaces", json!({"metadata": {"name": namespace}}));
            for name in ["x", "y"] {
                let core = format!("/api/v1/namespaces/{namespace}");
                add(&format!("{core}/configmaps"), json!({"metadata": {"name": name}}));
                add(&format!("{core}/secrets"), json!({"metadata": {"name": name}}));
                add(&format!("{core}/serviceaccounts"), json!({"metadata": {"name": name}}));
            }
        }
        add("/api/v1/namespaces/a/serviceaccounts", json!({"metadata": {"name": IMPERSONATOR}}));
        for (kind, object) in policy() {
            add(&format!("/apis/admissionregistration.k8s.io/v1/{kind}"), object);
        }
        let paths = |namespace: &str, plural: &str| match namespace {
            "" => format!("/apis/{RBAC}/v1/cluster{plural}"),
            namespace => format!("/apis/{RBAC}/v1/namespaces/{namespace}/{plural}"),
        };
        for namespace in ["", "a", "b"] {
            for n in 0..ROLES {
                let rules: Vec<Value> = (0..=self.0.below(2)).map(|_| self.rule(namespace.is_empty())).collect();
                let labels = if namespace.is_empty() && n < 2 { json!({"sum": "yes"}) } else { json!({}) };
                let role = json!({"metadata": {"name": format!("r{n}"), "labels": labels}, "rules": rules});
                add(&paths(namespace, "roles"), role);
            }
        }
        let selectors = json!([{"matchLabels": {"sum": "yes"}}]);
        let aggregated = json!({"metadata": {"name": AGGREGATED}, "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": []});
        add(&paths("", "roles"), aggregated);
        // Who may write roles and bindings, but holds few rights; who may do everything but what a policy denies.
        let fixed: [(&str, Value, &[&str]); 4] = [
            (
                "writer",
                json!([{"apiGroups": [RBAC], "resources": ["*"], "verbs": ["get", "create", "update", "patch"]},
                    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
                &["u0", "jürgen"],
            ),
            (
                "everything",
                json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
                &["system:apiserver", "ironclad-controllers"],
            ),
            (
                "patcher",
                json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["*"], "verbs": ["get", "update", "patch"]}]),
                &["u1", "system:serviceaccount:b:x"],
            ),
            (
                "only-x",
                json!([{"apiGroups": ["*"], "resources": ["*"], "resourceNames": ["x"], "verbs": ["*"]}]),
                &["u2", "用户"],
            ),
        ];
        for (name, rules, users) in fixed {
            add(&paths("", "roles"), json!({"metadata": {"name": name}, "rules": rules}));
            let subjects: Vec<Value> = users.iter().map(|user| subject(user)).collect();
            add(&paths("", "rolebindings"), binding(name, "ClusterRole", name, &subjects));
        }
        for namespace in ["", "a", "b"] {
            for n in 0..ROLES {
                let kind = if namespace.is_empty() || self.0.chance(0.4) { "ClusterRole" } else { "Role" };
                let role = format!("r{}", self.0.below(ROLES as u64));
                let mut subjects: Vec<Value> = self.some(&USERS[..8], 2).into_iter().map(subject).collect();
                if self.0.chance(0.5) {
                    subjects.push(json!({"kind": "Group", "apiGroup": RBAC, "name": self.one(&GROUPS)}));
                }
                if self.0.chance(0.3) {
                    let of = self.one(&["a", "b"]);
                    subjects.push(json!({"kind": "ServiceAccount", "namespace": of, "name": "x"}));
                }
                add(&paths(namespace, "rolebindings"), binding(&format!("b{n}"), kind, &role, &subjects));
            }
        }
        agents::objects().into_iter().for_each(|(path, object)| add(&path, object));
        // Bindings without their role are named in refusals.
        add(&paths("", "rolebindings"), binding("dangling", "ClusterRole", "gone", &[subject("u3")]));
        add(&paths("b", "rolebindings"), binding("dangling", "Role", "gone", &[subject("u 0")]));
        self.impersonator(&mut add, &paths);
        let mut bound = Vec::new();
        for (namespace, plural) in [("", "rolebindings"), ("a", "rolebindings"), ("b", "rolebindings")] {
            let last = json!([{"apiGroups": ["last.example"], "resources": ["things"], "verbs": ["get"]}]);
            add(&paths(namespace, "roles"), json!({"metadata": {"name": "zz-last"}, "rules": last}));
            let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
            let user = format!("last{namespace}");
            add(&paths(namespace, plural), binding("zz-last", kind, "zz-last", &[subject(&user)]));
            let mut asked = json!({"group": "last.example", "resource": "things", "verb": "get"});
            if !namespace.is_empty() {
                asked["namespace"] = json!(namespace);
            }
            bound.push(review(&user, &[], asked));
        }
        (out, bound)
    }

    /// Rights of the impersonator: some users, groups, uids and extras.
    fn impersonator(&self, add: &mut impl FnMut(&str, Value), paths: &impl Fn(&str, &str) -> String) {
        const AUTHENTICATION: &str = "authentication.k8s.io";
        let rule = |group: &str, resource: &str, names: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": ["impersonate"], "resourceNames": names});
        let rules = [
            rule("", "users", &["u0", "u1", "jürgen", "system:apiserver", "ironclad-controllers", "system:anonymous"]),
            rule("", "groups", &["g0", "gruppe-ß", "system:authenticated"]),
            rule(AUTHENTICATION, "uids", &["1", "ü"]),
            rule(AUTHENTICATION, "userextras/scope", &["view", "lesen-ü"]),
        ];
        add(&paths("", "roles"), json!({"metadata": {"name": IMPERSONATOR}, "rules": rules}));
        let who = json!({"kind": "ServiceAccount", "namespace": "a", "name": IMPERSONATOR});
        add(&paths("", "rolebindings"), binding(IMPERSONATOR, "ClusterRole", IMPERSONATOR, std::slice::from_ref(&who)));
        let accounts = json!([{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}]);
        add(&paths("a", "roles"), json!({"metadata": {"name": IMPERSONATOR}, "rules": accounts}));
        add(&paths("a", "rolebindings"), binding(IMPERSONATOR, "Role", IMPERSONATOR, &[who]));
    }

    /// A rule of a role; those of ClusterRoles may be about paths.
    fn rule(&self, cluster: bool) -> Value {
        let mut verbs = self.some(&VERBS, 4);
        verbs.dedup();
        if cluster && self.0.chance(0.25) {
            let urls = ["*", "/metrics", "/healthz/*", "/x/*", "/x*", "/api", "/apis/*", "/"];
            return json!({"nonResourceURLs": self.some(&urls, 2), "verbs": verbs});
        }
        let groups = self.some(&["", "", "apps", RBAC, "*", "x.example", "coordination.k8s.io"], 2);
        let mut resources: Vec<String> = Vec::new();
        for _ in 0..=self.0.below(3) {
            let (_, _, plural, _, _) = self.one(&RESOURCES);
            resources.push(match self.0.below(8) {
                0 => "*".to_owned(),
                1 => format!("*/{}", self.one(&SUBRESOURCES)),
                2 | 3 => format!("{plural}/{}", self.one(&SUBRESOURCES)),
                _ => plural.to_owned(),
            });
        }
        let mut rule = json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
        if self.0.chance(0.3) {
            rule["resourceNames"] = json!(self.some(&["x", "new", "a", "r0"], 2));
        }
        rule
    }

    pub(super) fn request(&mut self) -> Request {
        match self.0.below(24) {
            20..=23 => agents::request(self),
            0 | 1 => self.access_review(),
            2 => self.path(),
            3..=6 => self.role_write(),
            7 => self.credentials(),
            _ => self.resource(),
        }
    }

    /// Headers of the user that asks: named by the administrator or by the impersonator.
    fn user(&self) -> (As, Vec<(String, String)>) {
        let mut headers = Vec::new();
        let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        let who = if self.0.chance(0.2) {
            add("Authorization", "Bearer $token");
            As::Anonymous
        } else {
            As::Admin
        };
        if who == As::Anonymous && self.0.chance(0.1) {
            return (who, headers);
        }
        if self.0.chance(0.98) {
            add("Impersonate-User", self.one(&USERS));
        }
        if self.0.chance(0.4) {
            self.some(&GROUPS, 2).into_iter().for_each(|group| add("Impersonate-Group", group));
        }
        if self.0.chance(0.1) {
            add("Impersonate-Uid", self.one(&["1", "2", "ü"]));
        }
        if self.0.chance(0.1) {
            let name = self.one(&["Impersonate-Extra-Scope", "Impersonate-Extra-sc%6fpe", "Impersonate-Extra-other"]);
            add(name, self.one(&["view", "lesen-ü", "edit"]));
        }
        (who, headers)
    }

    fn resource(&self) -> Request {
        let (who, mut headers) = self.user();
        let (group, version, plural, kind, namespaced) = self.one(&RESOURCES);
        let mut path = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let is_watch_path = self.0.chance(0.03);
        if is_watch_path {
            path += "/watch";
        }
        if namespaced && self.0.chance(0.85) {
            path += &format!("/namespaces/{}", self.one(&NAMESPACES));
        }
        path += &format!("/{plural}");
        let names = if plural == "namespaces" { ["a", "b", "a", "new", "none"] } else { NAMES };
        let name = self.one(&names);
        let named = self.0.chance(0.6);
        let method = match (named, self.0.below(100)) {
            (_, 0..3) => self.one(&["HEAD", "PUT", "PATCH", "POST", "OPTIONS"]),
            (true, _) => self.one(&["GET", "PUT", "PATCH", "PATCH", "DELETE"]),
            (false, _) => self.one(&["GET", "GET", "POST", "POST", "DELETE"]),
        };
        let mut query: Vec<String> = Vec::new();
        if named {
            path += &format!("/{name}");
            if self.0.chance(0.3) {
                path += &format!("/{}", self.one(&SUBRESOURCES));
            }
        }
        if method == "GET" && !named && self.0.chance(0.3) {
            query.push(self.one(&["watch=true", "watch=1", "watch=0", "watch=false", "watch"]).to_owned());
        }
        if method == "GET" {
            // Watches that are allowed don't stay open.
            query.push("resourceVersion=none".to_owned());
        }
        if self.0.chance(0.35) {
            query.push(format!("fieldSelector={}", self.field_selector()));
        }
        let mut body = None;
        if method != "GET" && method != "HEAD" {
            query.push("dryRun=All".to_owned());
            let metadata = json!({"name": name});
            let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
            let content_type = match method {
                "PATCH" if self.0.chance(0.5) => {
                    query.push("fieldManager=differential".to_owned());
                    "application/apply-patch+yaml"
                }
                "PATCH" => {
                    object = json!({"metadata": {"labels": {"a": "b"}}});
                    "application/merge-patch+json"
                }
                _ => "application/json",
            };
            if method != "DELETE" {
                headers.push(("Content-Type".to_owned(), content_type.to_owned()));
                body = Some(object);
            }
        }
        if !query.is_empty() {
            path += &format!("?{}", query.join("&"));
        }
        Request { who, method, path, headers, body, review: None, must_be_refused: false }
    }

    fn field_selector(&self) -> String {
        let selectors = [
            "metadata.name=x",
            "metadata.name==x",
            "metadata.name=new",
            "metadata.name=a",
            "metadata.name!=x",
            "metadata.name=x,metadata.namespace=a",
            "metadata.namespace=a,metadata.name=x",
            "metadata.name=x,metadata.name=new",
            "metadata.name=",
            "metadata.name=x/y",
            "metadata.name=..",
            "metadata.name=x\\,y",
            "metadata.namespace=a",
            "spec.nodeName=x",
            "none",
        ];
        utf8_percent_encode(self.one(&selectors), NON_ALPHANUMERIC).to_string()
    }

    /// A write of a role or binding: nobody may grant more than they hold.
    fn role_write(&self) -> Request {
        let (who, mut headers) = self.user();
        if self.0.chance(0.7) {
            headers.retain(|(name, _)| name != "Impersonate-User");
            headers.push(("Impersonate-User".to_owned(), self.one(&["u0", "jürgen", "u1"]).to_owned()));
        }
        let namespace = self.one(&["", "a"]);
        let base = match namespace {
            "" => format!("/apis/{RBAC}/v1/cluster"),
            namespace => format!("/apis/{RBAC}/v1/namespaces/{namespace}/"),
        };
        let kinds = if namespace.is_empty() { ["ClusterRole", "ClusterRoleBinding"] } else { ["Role", "RoleBinding"] };
        let is_role = self.0.chance(0.6);
        let mut object = if is_role {
            let mut role =
                json!({"rules": (0..=self.0.below(2)).map(|_| self.rule(namespace.is_empty())).collect::<Vec<_>>()});
            if namespace.is_empty() && self.0.chance(0.2) {
                role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"sum": "yes"}}]});
            }
            role
        } else {
            let (kind, name) =
                self.one(&[("ClusterRole", "view"), ("ClusterRole", "r1"), ("ClusterRole", "r2"), ("Role", "r3")]);
            let kind = if namespace.is_empty() { "ClusterRole" } else { kind };
            binding("", kind, name, &[subject(self.one(&USERS))])
        };
        let plural = if is_role { "roles" } else { "rolebindings" };
        let existing = match (is_role, namespace) {
            (true, "") => self.one(&["r0", "r1", "r2", AGGREGATED, "cluster-admin", "view", "writer"]),
            (true, _) => self.one(&["r0", "r1", "r2", "r3"]),
            (false, _) => self.one(&["b0", "b1", "b2"]),
        };
        let (method, name, content_type) = match self.0.below(6) {
            0 | 1 => ("POST", "new", "application/json"),
            2 => ("PUT", self.one(&[existing, "new"]), "application/json"),
            3 => ("PATCH", self.one(&[existing, "new"]), "application/apply-patch+yaml"),
            _ => ("PATCH", existing, "application/merge-patch+json"),
        };
        let kind = kinds[usize::from(!is_role)];
        object["apiVersion"] = json!(format!("{RBAC}/v1"));
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": name});
        if content_type == "application/merge-patch+json" {
            object = self.one_of([
                json!({"metadata": {"labels": {"sum": "yes"}}}),
                json!({"metadata": {"labels": {format!("{RBAC}/aggregate-to-view"): "true"}}}),
                json!({"metadata": {"annotations": {"a": "b"}}}),
                json!({"metadata": {"finalizers": ["example.com/a"]}}),
                json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]}}),
                json!({"aggregationRule": null}),
                json!({"rules": object["rules"]}),
                json!({"subjects": [subject("u0")]}),
                json!({}),
            ]);
        }
        headers.push(("Content-Type".to_owned(), content_type.to_owned()));
        let path = match method {
            "POST" => format!("{base}{plural}?dryRun=All"),
            _ => format!("{base}{plural}/{name}?dryRun=All&fieldManager=differential&force=true"),
        };
        let path = if content_type.contains("apply") { path } else { path.replace("&force=true", "") };
        Request { who, method, path, headers, body: Some(object), review: None, must_be_refused: false }
    }

    fn one_of<const N: usize>(&self, of: [Value; N]) -> Value {
        of[self.below(N)].clone()
    }

    fn path(&self) -> Request {
        let (who, headers) = self.user();
        let method = self.one(&["GET", "GET", "GET", "POST", "HEAD", "PUT"]);
        let path = format!("{}{}", self.one(&PATHS), self.one(&["", "", "?a=b", "/z"]));
        Request { who, method, path, headers, body: None, review: None, must_be_refused: false }
    }

    /// Credentials in many forms, on a path that needs a right.
    fn credentials(&self) -> Request {
        let value = self.one(&[
            "Bearer $token", "bearer $token", "BEARER $token", "Bearer  $token", "Bearer $token more",
            " Bearer $token ", "Bearer wrong", "bearer wrong", "Bearer", "Bearer ", "Basic $token", "Basic YTpi",
            "$token", "bearer ü", "Bearer $tokenx", "Token $token", "",
        ]);
        let path = self.one(&["/api/v1/namespaces/a/secrets", "/version", "/metrics", "/api/v1/nodes/x"]).to_owned();
        let headers = vec![("Authorization".to_owned(), value.to_owned())];
        Request { who: As::Anonymous, method: "GET", path, headers, body: None, review: None, must_be_refused: false }
    }

    fn access_review(&self) -> Request {
        let groups = if self.0.chance(0.5) { self.some(&GROUPS, 2) } else { vec![] };
        let mut object = review(self.one(&USERS), &groups, json!({}));
        if self.0.chance(0.2) {
            let path = self.one(&PATHS);
            let verb = self.one(&["get", "post", "*", ""]);
            let spec = object["spec"].as_object_mut().expect("a review has a spec");
            spec.remove("resourceAttributes");
            spec.insert("nonResourceAttributes".to_owned(), json!({"path": path, "verb": verb}));
        } else {
            let (group, _, plural, _, _) = self.one(&RESOURCES);
            let asked = &mut object["spec"]["resourceAttributes"];
            *asked = json!({"group": group, "resource": plural, "verb": self.one(&VERBS)});
            for (key, values) in [
                ("namespace", &["a", "b"][..]),
                ("name", &["x", "new"][..]),
                ("subresource", &SUBRESOURCES[..]),
                ("version", &["v1", "*"][..]),
            ] {
                if self.0.chance(0.5) {
                    asked[key] = json!(self.one(values));
                }
            }
        }
        Request {
            who: As::Admin,
            method: "POST",
            path: String::new(),
            headers: vec![],
            body: None,
            review: Some(object),
            must_be_refused: false,
        }
    }
}

fn subject(user: &str) -> Value {
    json!({"kind": "User", "apiGroup": RBAC, "name": user})
}

fn binding(name: &str, kind: &str, role: &str, subjects: &[Value]) -> Value {
    let role = json!({"apiGroup": RBAC, "kind": kind, "name": role});
    json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects})
}

pub(super) fn review(user: &str, groups: &[&str], resource: Value) -> Value {
    let spec = json!({"user": user, "groups": groups, "resourceAttributes": resource});
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
}

/// A policy that nobody is exempt from.
fn policy() -> [(&'static str, Value); 2] {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]});
    let validation = json!({
        "expression": format!("object.metadata.name != {DENIED_NAME:?}"), "message": "denied", "reason": "Forbidden",
    });
    let spec =
        json!({"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": [validation]});
    [
        ("validatingadmissionpolicies", json!({"metadata": {"name": "deny"}, "spec": spec})),
        (
            "validatingadmissionpolicybindings",
            json!({"metadata": {"name": "deny"}, "spec": {"policyName": "deny", "validationActions": ["Deny"]}}),
        ),
    ]
}
