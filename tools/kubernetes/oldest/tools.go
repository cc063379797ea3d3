//go:build tools

// Package tools names the API server of the oldest Kubernetes that members are tested with.
package tools

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
