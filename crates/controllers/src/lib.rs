//! One folder per reconciler: `observe` reads caches into a snapshot, a pure decision makes a plan of it, `apply` sends the
//! plan (design.md section 2). There is no `if` about the domain here: it belongs into the decision.

mod application_failover;
mod awaiting;
mod binding;
mod binding_status;
mod bindings;
mod caches;
mod cluster;
mod clusters;
mod connect;
mod context;
mod dependencies;
mod detector;
mod events;
mod execution;
mod explain;
mod graceful_eviction;
mod index;
mod interpreter;
mod kinds;
mod mapper;
mod member_object;
mod members;
pub mod metrics;
mod namespace;
mod objects;
mod owned;
mod policy;
mod queues;
mod quota;
mod rebalance;
mod requeue;
mod scheduler;
mod selected;
mod settings;
mod setup;
mod taint_manager;
mod taint_policy;
mod targets;
mod unified_auth;
mod work_status;
mod works;

use std::sync::Arc;

use ironclad_fleet::gates::Gate;

use bindings::AnyBinding;
pub use connect::NetworkConnector;
pub use context::Context;
use member_object::MemberObject;
pub use members::Connector;
use members::Member;
pub use queues::Queues;
pub use settings::{CONTROLLERS, ControllerList, Settings, UnknownController};

/// Wires changes to queues, fills the caches, and starts all reconcilers as tasks of the context.
///
/// Workers start once the caches are full: a reconciler never acts on half a world.
pub async fn start(cx: &Arc<Context>) {
    wire(cx);
    cx.start_informers().await;
    cluster::start(cx);
    kinds::start(cx);
    policy::start(cx);
    detector::start(cx);
    scheduler::start(cx);
    binding::start(cx);
    binding_status::start(cx);
    if runs(cx, "namespace") {
        namespace::start(cx);
    }
    if cx.settings.gates.enabled(Gate::PropagateDeps) {
        dependencies::start(cx);
    }
    if runs(cx, "workloadRebalancer") {
        rebalance::start(cx);
    }
    if runs(cx, "unifiedAuth") {
        unified_auth::start(cx);
    }
    if runs(cx, "federatedResourceQuotaSync") {
        quota::start(cx);
    }
    taint_policy::start(cx);
    graceful_eviction::start(cx);
    application_failover::start(cx);
    taint_manager::start(cx).await;
}

/// Whether `--controllers` has this one run. Its queue is emptied all the same: nobody counts the events that come.
fn runs(cx: &Context, controller: &str) -> bool {
    cx.settings.controllers.enabled(controller)
}

/// Who hears of what. The handlers hold the context weakly: it owns the caches that hold them.
fn wire(cx: &Arc<Context>) {
    macro_rules! on {
        ($informer:expr, $($handler:path),+) => {{
            let weak = Arc::downgrade(cx);
            $informer.on_change(move |change| {
                let Some(cx) = weak.upgrade() else { return };
                $($handler(&cx, change);)+
            });
        }};
    }
    on!(
        cx.bindings.namespaced,
        scheduler::on_binding,
        binding::on_binding,
        binding_status::on_binding,
        graceful_eviction::on_binding
    );
    on!(
        cx.bindings.cluster_scoped,
        scheduler::on_cluster_binding,
        binding::on_cluster_binding,
        binding_status::on_cluster_binding,
        graceful_eviction::on_cluster_binding
    );
    on!(cx.works, binding::on_work, execution::on_work, binding_status::on_work);
    on!(cx.clusters, cluster::on_cluster, scheduler::on_cluster, execution::on_cluster, taint_policy::on_cluster);
    on!(cx.clusters, metrics::clusters::on_cluster);
    on!(cx.clusters, graceful_eviction::on_cluster, binding_status::on_cluster);
    on!(cx.bindings.namespaced, application_failover::on_binding, cluster::on_binding);
    on!(cx.bindings.cluster_scoped, application_failover::on_cluster_binding, cluster::on_cluster_binding);
    on!(cx.leases, cluster::monitor::on_lease);
    on!(cx.taint_policies, taint_policy::on_policy);
    on!(cx.clusters, taint_manager::on_cluster);
    on!(cx.bindings.namespaced, taint_manager::on_binding);
    on!(cx.bindings.cluster_scoped, taint_manager::on_cluster_binding);
    on!(cx.secrets, cluster::on_secret);
    on!(cx.namespaces, cluster::on_namespace);
    on!(cx.overrides, binding::on_override);
    on!(cx.cluster_overrides, binding::on_cluster_override);
    let weak = Arc::downgrade(cx);
    cx.interpreters.on_change(move |changed| {
        if let Some(cx) = weak.upgrade() {
            requeue::kinds(&cx, changed);
        }
    });
    let dependents = dependencies::Wakes {
        queue: cx.queues.dependencies.clone(),
        bindings: cx.bindings.namespaced.clone(),
        cluster_bindings: cx.bindings.cluster_scoped.clone(),
    };
    cx.templates.on_change(detector::on_template(cx.queues.clone(), cx.settings.clone(), dependents));
    on!(cx.policies, policy::on_policy);
    on!(cx.cluster_policies, policy::on_cluster_policy);
    on!(cx.definitions, kinds::on_definition);
    if runs(cx, "namespace") {
        on!(cx.namespaces, namespace::on_namespace);
        on!(cx.works, namespace::on_work);
        on!(cx.cluster_overrides, namespace::on_cluster_override);
    }
    if cx.settings.gates.enabled(Gate::PropagateDeps) {
        on!(cx.bindings.namespaced, dependencies::on_binding);
        on!(cx.bindings.cluster_scoped, dependencies::on_cluster_binding);
    }
    if runs(cx, "workloadRebalancer") {
        on!(cx.rebalancers, rebalance::on_rebalancer);
    }
    if runs(cx, "unifiedAuth") {
        on!(cx.namespaces, unified_auth::on_namespace);
        on!(cx.clusters, unified_auth::on_cluster);
        on!(cx.works, unified_auth::on_work);
        on!(cx.cluster_roles, unified_auth::on_role);
        on!(cx.cluster_role_bindings, unified_auth::on_role_binding);
    }
    if runs(cx, "federatedResourceQuotaSync") {
        on!(cx.namespaces, quota::on_namespace);
        on!(cx.works, quota::on_work);
        on!(cx.quotas, quota::on_quota);
        on!(cx.bindings.namespaced, quota::on_binding);
    }
}
