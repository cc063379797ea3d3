//! Feature gates of the embedded API server.

/// Gates of Kubernetes that change what objects may say; all off by default, as in a kube-apiserver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// `HPAScaleToZero`: a HorizontalPodAutoscaler may have `minReplicas` 0.
    pub hpa_scale_to_zero: bool,
}
