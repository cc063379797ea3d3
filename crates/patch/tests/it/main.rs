//! Replays what a real kube-apiserver answered (`cargo xtask codegen goldens` records it).

mod strategic;
