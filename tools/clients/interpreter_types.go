package main

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The body of a call to an interpreter webhook and of its answer, as Karmada publishes it in config.karmada.io/v1alpha1.
// Karmada's module is not among the dependencies, so the types are declared here; fields, JSON names and optionality
// are those of the published API.

const (
	contextVersion = "config.karmada.io/v1alpha1"
	contextKind    = "ResourceInterpreterContext"
	patchTypeJSON  = "JSONPatch"
)

// interpreterContext is the body of both directions.
type interpreterContext struct {
	metav1.TypeMeta `json:",inline"`
	Request         *interpreterRequest  `json:"request,omitempty"`
	Response        *interpreterResponse `json:"response,omitempty"`
}

type interpreterRequest struct {
	UID              types.UID               `json:"uid"`
	Kind             metav1.GroupVersionKind `json:"kind"`
	Name             string                  `json:"name"`
	Namespace        string                  `json:"namespace,omitempty"`
	Operation        string                  `json:"operation"`
	Object           runtime.RawExtension    `json:"object,omitempty"`
	ObservedObject   *runtime.RawExtension   `json:"observedObject,omitempty"`
	DesiredReplicas  *int32                  `json:"replicas,omitempty"`
	AggregatedStatus []aggregatedStatusItem  `json:"aggregatedStatus,omitempty"`
}

type interpreterResponse struct {
	UID                 types.UID                  `json:"uid"`
	Successful          bool                       `json:"successful"`
	Status              *requestStatus             `json:"status,omitempty"`
	Patch               []byte                     `json:"patch,omitempty"`
	PatchType           *string                    `json:"patchType,omitempty"`
	ReplicaRequirements *replicaRequirements       `json:"replicaRequirements,omitempty"`
	Replicas            *int32                     `json:"replicas,omitempty"`
	Components          []component                `json:"components,omitempty"`
	Dependencies        []dependentObjectReference `json:"dependencies,omitempty"`
	RawStatus           *runtime.RawExtension      `json:"rawStatus,omitempty"`
	Healthy             *bool                      `json:"healthy,omitempty"`
}

type requestStatus struct {
	Message string `json:"message,omitempty"`
	Code    int32  `json:"code,omitempty"`
}

type aggregatedStatusItem struct {
	ClusterName    string                `json:"clusterName"`
	Status         *runtime.RawExtension `json:"status,omitempty"`
	Applied        bool                  `json:"applied,omitempty"`
	AppliedMessage string                `json:"appliedMessage,omitempty"`
	Health         string                `json:"health,omitempty"`
}

type nodeClaim struct {
	HardNodeAffinity *corev1.NodeSelector `json:"hardNodeAffinity,omitempty"`
	NodeSelector     map[string]string    `json:"nodeSelector,omitempty"`
	Tolerations      []corev1.Toleration  `json:"tolerations,omitempty"`
}

type replicaRequirements struct {
	NodeClaim         *nodeClaim          `json:"nodeClaim,omitempty"`
	ResourceRequest   corev1.ResourceList `json:"resourceRequest,omitempty"`
	Namespace         string              `json:"namespace,omitempty"`
	PriorityClassName string              `json:"priorityClassName,omitempty"`
}

type component struct {
	Name                string                 `json:"name"`
	Replicas            int32                  `json:"replicas"`
	ReplicaRequirements *componentRequirements `json:"replicaRequirements,omitempty"`
}

type componentRequirements struct {
	NodeClaim         *nodeClaim          `json:"nodeClaim,omitempty"`
	ResourceRequest   corev1.ResourceList `json:"resourceRequest,omitempty"`
	PriorityClassName string              `json:"priorityClassName,omitempty"`
}

type dependentObjectReference struct {
	APIVersion    string                `json:"apiVersion"`
	Kind          string                `json:"kind"`
	Namespace     string                `json:"namespace,omitempty"`
	Name          string                `json:"name,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}
