//! Tests of the whole of Ironclad: in virtual time, as a process, and on real Kubernetes.

mod admission_real;
mod authorization;
mod backup_up;
mod bad_input;
mod capacity_sim;
mod certificates_up;
mod clients;
mod clients_kube_rs;
mod clients_restart;
mod crds_real;
mod cron_sim;
mod differential;
mod evictions_sim;
mod failover_edges;
mod failover_leaves;
mod failover_matrix;
mod failover_plan;
mod failover_real;
mod failover_returns;
mod failover_rows;
mod failover_scale;
mod failover_scenarios;
mod failover_seeds;
mod failover_stays;
mod failover_up;
mod failover_walk;
mod flows;
mod flows_up;
mod interpreter_webhook_go;
mod interpreter_webhook_up;
mod kill_loop;
mod kubectl_lines;
mod limits_up;
mod member_controllers;
mod members_sim;
mod old_member;
mod preemption_matrix;
mod preemption_sim;
mod preemption_up;
mod preemption_walk;
mod propagation;
mod propagation_bad_input;
mod propagation_matrix;
mod propagation_real;
mod propagation_scenarios;
mod propagation_sim;
mod propagation_up;
mod proxied_members;
mod real_env;
mod shown;
mod sim_up;
mod taints_sim;
mod tenant;

/// As in Ironclad: thousands of worlds are created and dropped.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
