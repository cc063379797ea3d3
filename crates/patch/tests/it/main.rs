//! Replays what a real kube-apiserver answered (`cargo xtask codegen goldens` records it).

mod apply;
mod compare;
#[cfg(feature = "cel")]
mod rules;
mod strategic;
mod structural;
