//! Replays what a real kube-apiserver answered (`cargo xtask codegen goldens` records it).

mod apply;
mod compare;
mod strategic;
mod structural;
