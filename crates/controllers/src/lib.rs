//! One folder per reconciler: observe, decide, apply.
