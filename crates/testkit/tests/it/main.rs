//! What is proved with the whole product: in virtual time, as a process, and on real Kubernetes.

mod admission_real;
mod bad_input;
mod crds_real;
mod evictions_sim;
mod failover_edges;
mod failover_matrix;
mod failover_plan;
mod failover_real;
mod failover_rows;
mod failover_scale;
mod failover_scenarios;
mod failover_seeds;
mod failover_up;
mod failover_walk;
mod flows;
mod flows_up;
mod kill_loop;
mod members_sim;
mod real_env;
mod road;
mod road_real;
mod road_scenarios;
mod road_sim;
mod road_up;
mod sim_up;
mod taints_sim;
